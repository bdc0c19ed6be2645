// The ways of launch() (kernel_launch.h) that go by streams (ADR-0190).

#pragma once

#include "runtime/launch/kernel_launch.h"

namespace kernbench::runtime {

// Issues a launch to the caller's current stream of its device.  An error of the kernel is thrown
// when the caller waits for the stream, with `request.what` at the end of its text.
void enqueue_launch(Simulation& simulation, LaunchRequest request);

// Waits for the current streams of the launch's devices, and launches then.
std::int64_t launch_after_streams(Simulation& simulation, LaunchRequest request);

}  // namespace kernbench::runtime
