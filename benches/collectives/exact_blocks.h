// Inputs of a collective whose results are exact in any order of additions, and the results that
// every rank must hold, computed by plain loops over the ranks.
//
// They are independent of the code under test: an element depends only on the rank that contributes
// it, on its block and on its index.

#pragma once

#include <cstdint>
#include <vector>

#include "benches/collectives/bus_bandwidth.h"
#include "runtime/distributed/options.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches::collectives {

// A collective, its ranks, and the blocks that it works on.
struct BlocksInput {
  MeasuredCollective collective = MeasuredCollective::all_reduce;
  // The number of participants with blocks of their own.  In the oracle of a partial tensor, each
  // holder of a summand, on any SIP, is a participant.
  int ranks = 1;
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  std::int64_t count = 0;  // elements of a block
  std::uint64_t seed = 0;

  // The size by nccl-tests' convention.
  Bytes bytes() const { return count * size_of(dtype) * spec_of(collective).blocks_in_size(ranks); }
};

class ExactBlocks {
 public:
  explicit ExactBlocks(const BlocksInput& input);

  // The input of `rank`: its block for rank `block`, or its only block, 0.
  std::vector<float> given(int rank, int block) const;

  // The expected output of `rank`: its block from rank `block`, or its only block, 0.
  std::vector<float> taken(int rank, int block) const;

 private:
  // The reduction of all ranks' blocks for rank `block`.
  std::vector<float> reduced(int block) const;
  const std::vector<float>& result_on_all_ranks() const;

  const BlocksInput input_;
  const std::uint32_t seed_;
  const std::int64_t largest_;  // largest magnitude of an input
  const std::size_t stride_;    // every stride-th rank brings such a number, others a neutral one
  // The result of all_reduce and reduce is computed once for all ranks, when it is first asked for:
  // a run without data never needs it.
  mutable std::vector<float> result_on_all_ranks_;
};

}  // namespace kernbench::benches::collectives
