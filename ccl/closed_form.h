// What an algorithm takes when nothing costs time but links (TIMING.md 3.2).

#pragma once

#include <optional>
#include <string>

#include "runtime/tensor/dp_policy.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

struct ClosedForm {
  Time time{0};
  std::string formula;  // in the notation of TIMING.md
};

// intercube_allreduce of `bytes` per cube (per SIP if the cubes hold parts), in the root form where
// cubes share the tensor.  alpha is the latency of the way between neighbours, beta the time per
// byte at its slowest link; every stage waits for the one before it, so that what is cut in chunks
// and pipelined can be faster than the form says.  nullopt where no such form is known: for cubes
// that exchange their own parts, whose ways to the IO chiplet differ.
std::optional<ClosedForm> intercube_closed_form(const Topology& topology, const DPPolicy& placement,
                                                Bytes bytes);

}  // namespace kernbench::ccl
