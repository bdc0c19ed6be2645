// `algorithm: auto`: the fastest algorithm for a tensor, by the model itself.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ccl/config.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::ccl {

struct Choice {
  const Algorithm* algorithm = nullptr;
  // All that were tried, and how long the slowest PE's kernel took; the fastest first.
  std::vector<std::pair<const Algorithm*, Time>> tried;
};

// "ring_allreduce 12.1 us, mesh_allreduce 14.0 us, ..."
std::string describe(const Choice& choice);

// Runs each of the config's candidates once, without data, on an idle system of its own, and takes
// the first of the fastest.  Candidates that cannot work on such a tensor are left out.
// Throws CollectiveError KB-C013 if none can.
// REQUIRES: on the main stack
Choice choose_algorithm(const Topology& topology, const Config& config, const Shape& shape,
                        const TensorOptions& options);

}  // namespace kernbench::ccl
