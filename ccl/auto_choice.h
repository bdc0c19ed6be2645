// `algorithm: auto`: finds the fastest algorithm for a tensor by running the model itself.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ccl/config.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::ccl {

struct Choice {
  const Algorithm* algorithm = nullptr;
  // All algorithms that were tried, with the time of the slowest PE's kernel; the fastest first.
  std::vector<std::pair<const Algorithm*, Time>> tried;
};

// "ring_allreduce 12.1 us, mesh_allreduce 14.0 us, ..."
std::string describe(const Choice& choice);

// Runs each of the config's candidates once, without data, on an idle system of its own, and
// chooses the fastest, of equally fast ones the first.  Candidates that cannot work on such a
// tensor are left out.
// Throws CollectiveError KB-C013 if no candidate can.
// REQUIRES: on the main stack
Choice choose_algorithm(const Topology& topology, const Config& config, const Shape& shape,
                        const TensorOptions& options);

}  // namespace kernbench::ccl
