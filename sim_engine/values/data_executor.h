// Evaluation: computes values when they are read, or when what is to be computed fills the host's
// memory.
//
// A read computes the value and what it depends on, and nothing else.  Computed values are kept as
// long as somebody refers to them, so that a second read only copies; the others are freed on the
// way.  A program that reads nothing would keep the history of its tensors, so bound_memory()
// computes what lies in regions when there is much of it.
//
// Arithmetic is in f32 with one rounding to the type per operation, element by element in a
// fixed way: the same bits on every run, in any order of reads, on any number of threads.
//
// If there is enough work, independent values, and parts of large values, are computed on several
// threads.  The threads are started for the read and joined at its end; a read of less than a
// millisecond starts no thread.
//
// REQUIRES: the stack of the host's thread (not a fiber's): blocks of elements live on it

#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim_engine/values/gemm_product.h"
#include "sim_engine/values/memory_store.h"
#include "sim_engine/values/value.h"

namespace kernbench::sim {

class DataExecutor {
 public:
  // Uses at most `thread_count` threads, including the caller's; 0: as many as the host has cores.
  explicit DataExecutor(MemoryStore& store, int thread_count = 0);

  // Writes value's elements to `out`.
  // REQUIRES: the store has data; out.size() is the number of elements; no placeholder that the
  // value depends on is unbound
  void read(const Value& value, std::span<float> out);
  // REQUIRES: the value's type is integral
  void read(const Value& value, std::span<std::int64_t> out);

  // Computes the values that lie in regions if the store has more nodes or bytes than kFewNodes and
  // kFewBytes, and than twice as many as the last time has left: for about as long as their
  // simulation took, so that a run whose values nobody reads takes at most twice its time; from
  // kManyNodes or kManyBytes on, whatever it takes.  No value depends on it.
  // REQUIRES: no placeholder that a region's value depends on is unbound
  void bound_memory();
  bool is_memory_to_be_bounded() const {
    return store_.live_value_count() > most_nodes_ || store_.live_bytes() > most_bytes_;
  }
  static constexpr std::int64_t kFewNodes = std::int64_t{1} << 16;  // some 10 MiB
  static constexpr std::int64_t kManyNodes = std::int64_t{1} << 22;
  static constexpr Bytes kFewBytes = Bytes{64} << 20;
  static constexpr Bytes kManyBytes = Bytes{1} << 30;

  // Counts the values that have been computed, for reports and tests.
  std::int64_t computed_count() const { return computed_count_; }
  // The number of threads that the last read used.
  int last_thread_count() const { return last_thread_count_; }

 private:
  class PlanWork;
  static constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

  template <class Number>
  void read_as(const Value& value, std::span<Number> out);
  // Computes a value, or a part of what it needs if that takes longer than the budget.
  void compute(ValueNode& root);
  void plan_some();
  bool is_plan_long_enough() const;
  bool push_needs(ValueNode& node);
  int useful_threads() const;
  void run_plan();
  void run_in_order();
  void run_on_threads(int thread_count);
  void prepare_workspaces(int count);
  void begin(ValueNode& node);
  void end(ValueNode& node);
  void forget_plan();

  MemoryStore& store_;
  const int thread_count_;
  std::vector<GemmWorkspace> workspaces_;  // one per thread
  std::vector<ValueNode*> path_;           // to be planned, the last one first
  std::vector<ValueNode*> plan_;           // to be computed, each after its inputs
  std::int64_t cost_ = 0;                  // of the plan, in about a nanosecond
  std::int64_t budget_ = kNoLimit;         // what further plans may cost
  std::int64_t most_nodes_ = kFewNodes;    // bound_memory() has nothing to do with so many
  Bytes most_bytes_ = kFewBytes;
  std::int64_t computed_count_ = 0;
  int last_thread_count_ = 1;
};

}  // namespace kernbench::sim
