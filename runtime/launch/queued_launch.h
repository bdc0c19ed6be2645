// Launches that a rank issues to a stream and does not wait for (ADR-0190).

#pragma once

#include <string>

#include "runtime/launch/kernel_launch.h"

namespace kernbench::runtime {

// Issues a launch to the caller's current stream of its device.  What a kernel throws is thrown
// when the caller waits for the stream, with `what` at the end of its text: "kernel 'add' at
// ddp.cpp:41".  `results` are the tensors that it writes; null: whichever of those that it uses.
void queue_kernel(Simulation& simulation, std::string what, LaunchRequest request,
                  const std::vector<Tensor>* results);

// Blocks the caller until the current streams of the launch's devices are done.
void wait_for_streams(Simulation& simulation, const LaunchRequest& request);

}  // namespace kernbench::runtime
