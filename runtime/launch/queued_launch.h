// Launches that a rank issues to a stream and does not wait for (ADR-0190).

#pragma once

#include <string>

#include "runtime/launch/kernel_launch.h"

namespace kernbench::runtime {

// Issues a launch to the caller's current stream of its device.  An error of the kernel is thrown
// when the caller waits for the stream, with `what` at the end of its text: "kernel 'add' at
// ddp.cpp:41".  `results` are the tensors that it writes; null: whichever of those that it uses.
void queue_kernel(Simulation& simulation, std::string what, LaunchRequest request,
                  const std::vector<Tensor>* results);

// Runs a launch when the current streams of its devices are done, while the caller waits.
void run_after_streams(Simulation& simulation, const std::string& what, LaunchRequest request);

}  // namespace kernbench::runtime
