#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

struct HolderBase {};

[[noreturn]] void refuse_empty_holder();

// A handle to a module, as torch::nn::ModuleHolder: copies refer to the same one.  Calling it calls
// the module's forward().
template <class Contained>
class ModuleHolder : public HolderBase {
 public:
  using ContainedType = Contained;

  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) : module_(std::move(module)) {}
  template <class First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, ModuleHolder> &&
           std::constructible_from<Contained, First, Rest...>) explicit ModuleHolder(First&& first,
                                                                                     Rest&&... rest)
      : module_(
            std::make_shared<Contained>(std::forward<First>(first), std::forward<Rest>(rest)...)) {}

  // As above, for options in braces: `Linear(torch, 8, 16, {.dtype = kb::DType::f16})`.
  explicit ModuleHolder(const RuntimeContext& torch, const TensorOptions& tensors) requires
      std::constructible_from<Contained, const RuntimeContext&, const TensorOptions&>
      : module_(std::make_shared<Contained>(torch, tensors)) {}
  template <class A>
  requires std::constructible_from<Contained, const RuntimeContext&, A, const TensorOptions&>
  ModuleHolder(const RuntimeContext& torch, A&& a, const TensorOptions& tensors)
      : module_(std::make_shared<Contained>(torch, std::forward<A>(a), tensors)) {}
  template <class A, class B>
  requires std::constructible_from<Contained, const RuntimeContext&, A, B, const TensorOptions&>
  ModuleHolder(const RuntimeContext& torch, A&& a, B&& b, const TensorOptions& tensors)
      : module_(
            std::make_shared<Contained>(torch, std::forward<A>(a), std::forward<B>(b), tensors)) {}

  // Throw CollectiveError KB-A010 for a handle to nothing: Linear(nullptr).
  Contained* operator->() const { return &contained(); }
  Contained& operator*() const { return contained(); }
  const std::shared_ptr<Contained>& ptr() const { return module_; }
  explicit operator bool() const { return module_ != nullptr; }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    if constexpr (takes_tensor<Arguments...>()) {
      if (contained().has_forward_hooks()) [[unlikely]] {
        return with_hooks(std::forward<Arguments>(arguments)...);
      }
    }
    return contained().forward(std::forward<Arguments>(arguments)...);
  }

  // As libtorch: layers[0] of a ModuleList.
  template <class Index>
  decltype(auto) operator[](Index&& index) const {
    return contained()[std::forward<Index>(index)];
  }

 private:
  Contained& contained() const {
    if (module_ == nullptr) [[unlikely]]
      refuse_empty_holder();
    return *module_;
  }
  template <class First = void, class... Rest>
  static constexpr bool takes_tensor() {
    return std::derived_from<std::remove_cvref_t<First>, Tensor>;
  }

  template <class... Rest>
  auto with_hooks(const Tensor& given, Rest&&... rest) const {
    return module_->with_hooks(given, [&](const Tensor& input) {
      return module_->forward(input, std::forward<Rest>(rest)...);
    });
  }

  std::shared_ptr<Contained> module_;
};

}  // namespace kernbench::nn

// Declares `Name` as a handle to a `NameImpl` (TORCH_MODULE).
#define KERNBENCH_MODULE(Name)                                     \
  struct Name : ::kernbench::nn::ModuleHolder<Name##Impl> {        \
    using ::kernbench::nn::ModuleHolder<Name##Impl>::ModuleHolder; \
  }
