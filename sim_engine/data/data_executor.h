// The replay: computes values when somebody wants to see them.
//
// A read computes the value and what it depends on, and no more; what was computed is kept as
// long as anybody refers to it, so that a second read only copies.  What nobody refers to any more
// is freed on the way.  Arithmetic is in f32 with one rounding to the type per operation, element
// by element in a fixed way: the same bits on every run, in any order of reads.
//
// REQUIRES: the stack of the host's thread (not a fiber's): blocks of elements live on it

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim_engine/data/gemm_product.h"
#include "sim_engine/data/memory_store.h"
#include "sim_engine/data/value.h"

namespace kernbench::sim {

class DataExecutor {
 public:
  explicit DataExecutor(MemoryStore& store) : store_(store) {}

  // Writes value's elements to `out`.
  // REQUIRES: the store has data; out.size() is the number of elements; no placeholder that the
  // value depends on is unbound
  void read(const Value& value, std::span<float> out);

  // How many values have been computed, for reports and tests.
  std::int64_t computed_count() const { return computed_count_; }

 private:
  void compute(ValueNode& root);
  bool push_inputs(ValueNode& node);
  bool push_if_needed(ValueNode& input);
  void compute_node(ValueNode& node);
  void abandon_path();

  MemoryStore& store_;
  GemmWorkspace workspace_;
  std::vector<ValueNode*> path_;  // to be computed, the last first
  std::int64_t computed_count_ = 0;
};

}  // namespace kernbench::sim
