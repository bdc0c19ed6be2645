// The results that a selective checkpoint keeps: an operator whose result may be kept asks here
// before it computes.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/fiber/function_ref.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::autograd {

// The operators that call kept_or_computed().
inline constexpr std::string_view kKeepableOperators[] = {"matmul", "addmm", "varlen_attn",
                                                          "grouped_mm"};

// The results of one call of a checkpoint's function, in their order.
struct KeptResults {
  struct Entry {
    std::string call;  // the operator with the form of its inputs, by which it is known again
    std::vector<SavedTensor> results;
  };

  nn::utils::SelectiveCheckpointPolicy policy;
  std::vector<Entry> entries = {};
  std::size_t next = 0;
  bool gives = false;  // the function is called again, else for the first time

  // The function is called again from here on.
  void begin_again();
  // Throws CollectiveError KB-A034 unless that call has taken all results.
  void check_all_taken() const;
};

// While it lives, the caller's operators keep their results there, or take them; null: neither.
class KeepingScope {
 public:
  KeepingScope(runtime::Simulation& simulation, KeptResults* results);
  ~KeepingScope() { current_ = before_; }
  KeepingScope(const KeepingScope&) = delete;
  KeepingScope& operator=(const KeepingScope&) = delete;

 private:
  KeptResults*& current_;
  KeptResults* const before_;
};

// Returns what `compute` returns, or what it has returned when a checkpoint that keeps it called
// its function for the first time.  Throws CollectiveError KB-A034 if the operator, or the shape,
// type or placement of an input, is not the one of that call.
std::vector<Tensor> kept_or_computed(std::string_view op, const std::vector<Tensor>& inputs,
                                     runtime::FunctionRef<std::vector<Tensor>()> compute);

}  // namespace kernbench::autograd
