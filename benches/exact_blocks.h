// Inputs of a collective whose results are exact whatever the order of its additions, and what
// every rank must hold after it, by plain loops over the ranks.
//
// Independent of the code under test: an element is a function of the rank that brings it, of its
// block and of its index.

#pragma once

#include <cstdint>
#include <vector>

#include "benches/bus_bandwidth.h"
#include "runtime/distributed/reduce_op.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::benches {

// Which collective of how many ranks, and on what.
struct BlocksInput {
  MeasuredCollective collective = MeasuredCollective::all_reduce;
  int ranks = 1;
  int root = 0;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  std::int64_t count = 0;  // elements of a block
  std::uint64_t seed = 0;
};

class ExactBlocks {
 public:
  explicit ExactBlocks(const BlocksInput& input);

  // What a rank brings as the block for `block`, or as its only one: 0.
  std::vector<float> given(int rank, int block) const;

  // What the block from `block` that a rank takes, or its only one, must be.
  std::vector<float> taken(int rank, int block) const;

 private:
  std::int64_t draw(int rank, int block, std::int64_t element) const;
  // The reduction over ranks of their blocks for `block`.
  std::vector<float> reduced(int block) const;
  std::int64_t reduced(int block, std::int64_t element) const;

  const BlocksInput input_;
  const std::uint32_t seed_;
  const std::int64_t largest_;  // magnitude of what is added up or compared
  const std::int64_t
      stride_;  // every stride-th rank brings such a number, the others a neutral one
  std::vector<float> results_;  // of all_reduce and reduce: computed once for all ranks
};

}  // namespace kernbench::benches
