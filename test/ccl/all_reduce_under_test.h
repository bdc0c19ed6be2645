// One all_reduce from given summands to the results of all holders, and what it must give.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ccl/core/config.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::test {

// The library's, in its order.
inline constexpr std::array<std::string_view, 5> kAllReduceAlgorithms = {
    "intercube_allreduce", "ring_allreduce", "bidirectional_ring_allreduce", "mesh_allreduce",
    "tree_allreduce"};

// A holder's summand of element `position` (row-major in the whole tensor).  `part` tells apart
// what the holders inside a SIP bring to a partial tensor; it is 0 for all others.
using Summand = std::function<float(int rank, int part, std::int64_t position)>;

// -1, 0 or 1, without a pattern that a wrong order would meet again.
float small_integer(int rank, int part, std::int64_t position);

struct AllReduce {
  Topology topology;
  DPPolicy dp = DPPolicy::on_one_pe();
  Shape shape = {1};
  DType dtype = DType::f32;
  ccl::Config config = {};
  Summand summand = small_integer;  // none: nothing is written before
  bool data = true;
  std::optional<std::uint64_t> shuffle_ties = std::nullopt;
  int repetitions = 1;  // all_reduce is called so often, each time on the sum of before

  std::string text() const;
};

// The results of every holder of every rank.
struct AllReduceResult {
  std::vector<std::vector<ShardInfo>> shards;             // by rank
  std::vector<std::vector<std::vector<float>>> elements;  // by rank and shard; none without data
  std::vector<DPPolicy> dp;                               // by rank, afterwards
  Time took{0};                                           // without the copies before it
  Time now{0};
  std::vector<runtime::KernelResult> kernels;  // of the last all_reduce
  std::uint64_t events = 0;
  std::uint64_t fingerprint = 0;
};

AllReduceResult run(const AllReduce& all_reduce);

// The positions in the whole tensor of a shard's elements, in the shard's order.
std::vector<std::int64_t> positions_of(const ShardInfo& shard, const Shape& shape);

// All summands of one element.
std::vector<double> summands_of(const AllReduce& all_reduce, std::int64_t position);

// Holders whose elements are not the exact sum, or whose placement is wrong: "" if none.
std::string wrong_sums(const AllReduce& all_reduce, const AllReduceResult& result);

// Copies of the same element that differ between ranks or holders, in any bit: "" if none.
std::string differing_copies(const AllReduce& all_reduce, const AllReduceResult& result);

// Runs it, and fails the test unless sums are exact and copies equal.
void check_exact(const AllReduce& all_reduce);

}  // namespace kernbench::test
