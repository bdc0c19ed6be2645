// kb::compile(f), as torch.compile: a function whose operators are fused, elementwise ones and
// those along rows (ADR-0242).
//
//   const auto gate = kb::compile([](const kb::Tensor& a, const kb::Tensor& b) {
//     return kb::nn::functional::silu(a) * b;
//   });
//   const kb::Tensor y = gate(a, b);  // one kernel, which loads a and b and stores y

#pragma once

#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

namespace compilation {

// The tensors among a function's arguments or results.
using Tensors = std::vector<Tensor>;
template <class Other>
void collect(Tensors&, const Other&) {}
void collect(Tensors& all, const Tensor& tensor);
template <class... Allocator>
void collect(Tensors& all, const std::vector<Tensor, Allocator...>& tensors) {
  all.insert(all.end(), tensors.begin(), tensors.end());
}
template <class... Elements>
void collect(Tensors& all, const std::tuple<Elements...>& elements) {
  std::apply([&](const auto&... each) { (collect(all, each), ...); }, elements);
}
template <class First, class Second>
void collect(Tensors& all, const std::pair<First, Second>& pair) {
  collect(all, pair.first);
  collect(all, pair.second);
}

// While it lives, the caller's operators are fused.
class Call {
 public:
  explicit Call(const Tensors& arguments);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Computes what the call returns, unless another compiled call has made this one.
  void end(const Tensors& results) const;

 private:
  struct State;
  std::unique_ptr<State> state_;  // null: no argument is on a device
};

}  // namespace compilation

// See compile().
template <class Function>
class Compiled {
 public:
  explicit Compiled(Function function) : function_(std::move(function)) {}

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    compilation::Tensors tensors;
    (compilation::collect(tensors, arguments), ...);
    const compilation::Call call(tensors);
    if constexpr (std::is_void_v<std::invoke_result_t<Function&, Arguments...>>) {
      function_(std::forward<Arguments>(arguments)...);
    } else {
      auto result = function_(std::forward<Arguments>(arguments)...);
      tensors.clear();
      compilation::collect(tensors, result);
      call.end(tensors);
      return result;
    }
  }

 private:
  mutable Function function_;
};

// Returns a function that computes what `function` does, bit by bit, with fewer kernels and less
// traffic: of its elementwise operators, softmax, norms, look-ups in small tables, and sums and
// extremes of each row (with `keepdim`) or of all rows, those that feed each other become one
// kernel, which stores only what another kernel, the host or the caller needs.  Its backward is
// fused likewise, and computes again what forward has not stored.  All else in it is as without
// compile(): matrix products, other reductions, and what is along rows of more than 1/128 of
// scratch are kernels of their own, between which the fused ones are.
//
// `function` is anything that is called with tensors, or vectors of them, such as a lambda or the
// handle of a module.  It runs anew in each call, so that shapes, types and branches of the host
// may change from call to call; a compiled call inside another is part of that.
template <class Function>
Compiled<Function> compile(Function function) {
  return Compiled<Function>(std::move(function));
}

}  // namespace kernbench
