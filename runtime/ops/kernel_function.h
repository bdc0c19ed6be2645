// A function that an operator's kernel calls, and whether that may happen after the operator has
// returned: queued launches run later (ADR-0190).

#pragma once

#include <functional>
#include <type_traits>
#include <utility>

namespace kernbench::ops {

template <class Signature>
class KernelFunction;

// Says that a lambda owns what it uses, where its type does not show it: Owning([=] { ... }) with
// captured numbers alone.
template <class Callable>
struct Owning : Callable {
  struct Owns;
  explicit Owning(Callable callable) : Callable(std::move(callable)) {}
};

// A lambda that captures references is trivially copyable, and one that captures tensors by value
// is not.  A function object that is trivially copyable and captures anything, or hides its type in
// a std::function, counts as borrowing: its launch blocks.  REQUIRES: a lambda does not capture
// both ways
template <class Result, class... Arguments>
class KernelFunction<Result(Arguments...)> {
 public:
  template <class Callable>
  requires(std::is_invocable_r_v<Result, const Callable&, Arguments...>)
      KernelFunction(Callable callable)  // implicit: callers pass lambdas
      : owns_(does_own<Callable>()), function_(std::move(callable)) {}

  bool owns() const { return owns_; }
  Result operator()(Arguments... arguments) const {
    return function_(std::forward<Arguments>(arguments)...);
  }

 private:
  template <class Callable>
  static constexpr bool does_own() {
    const bool hides = std::is_same_v<Callable, std::function<Result(Arguments...)>>;
    return std::is_empty_v<Callable> || requires {
      typename Callable::Owns;
    }
    || (!std::is_trivially_copyable_v<Callable> && !hides);
  }

  bool owns_;
  std::function<Result(Arguments...)> function_;
};

}  // namespace kernbench::ops
