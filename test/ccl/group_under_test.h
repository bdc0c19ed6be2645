// Programs of several ranks over tensors that lie anywhere, and what they must give.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/torch/runtime_context.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::test {

// Returns element `position` of what a member brings: a small integer, never 0.
double brought(int rank, std::int64_t position);

using Elements = std::vector<double>;
Elements elements_of(int rank, std::int64_t count, std::int64_t first = 0);

// A tensor on the caller's device whose value is that; where it is partial, every holder has a
// summand that is not 0.
Tensor make(RuntimeContext& torch, const Shape& shape, const TensorOptions& options,
            const Elements& elements);

// Says what is wrong with a tensor that should be `expected` in every copy, and not be partial; ""
// if nothing is.
std::string wrong(const Tensor& x, const Elements& expected);

// The placements that tests use, for SIPs of several cubes and PEs.
const std::vector<DPPolicy>& placements();

// A member of a group, on its fiber.
struct Member {
  RuntimeContext& torch;
  distributed::ProcessGroup group;
  int rank = 0;            // in the group
  std::vector<int> ranks;  // global, by group rank

  int size() const { return static_cast<int>(ranks.size()); }
};

// Runs `program` on the members of one group of ranks, in this order (all ranks: the default
// group), and returns what it said was wrong.
std::vector<std::string> run_group(const Topology& topology, const std::vector<int>& ranks,
                                   const std::function<std::string(const Member&)>& program,
                                   RuntimeOptions options = {});

}  // namespace kernbench::test
