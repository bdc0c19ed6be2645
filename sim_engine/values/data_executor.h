// Evaluation: computes values when they are read.
//
// A read computes the value and what it depends on, and nothing else.  Computed values are kept as
// long as somebody refers to them, so that a second read only copies; the others are freed on the
// way.  Arithmetic is in f32 with one rounding to the type per operation, element by element in a
// fixed way: the same bits on every run, in any order of reads, on any number of threads.
//
// If there is enough work, independent values, and parts of large values, are computed on several
// threads.  The threads are started for the read and joined at its end; a read of less than a
// millisecond starts no thread.
//
// REQUIRES: the stack of the host's thread (not a fiber's): blocks of elements live on it

#pragma once

#include <cstdint>
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

  // Counts the values that have been computed, for reports and tests.
  std::int64_t computed_count() const { return computed_count_; }
  // The number of threads that the last read used.
  int last_thread_count() const { return last_thread_count_; }

 private:
  class PlanWork;

  template <class Number>
  void read_as(const Value& value, std::span<Number> out);
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
  std::int64_t computed_count_ = 0;
  int last_thread_count_ = 1;
};

}  // namespace kernbench::sim
