// torch::nn::ModuleHolder and TORCH_ARG: handles to modules, and options of layers.

#pragma once

#include <concepts>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/tensor/tensor.h"

// A field of an options struct with torch's accessors: `LinearOptions(8, 4).bias(false)` sets it,
// `options.bias()` reads it (TORCH_ARG).
#define KERNBENCH_OPTION(Type, name, ...)  \
 public:                                   \
  auto name(Type value)->decltype(*this) { \
    name##_ = std::move(value);            \
    return *this;                          \
  }                                        \
  const Type& name() const {               \
    return name##_;                        \
  }                                        \
                                           \
 private:                                  \
  Type name##_ {                           \
    __VA_ARGS__                            \
  }

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

class Copies;
class Module;
struct HolderBase {};

[[noreturn]] void refuse_empty_holder();

// What is called without its context demands it here: its constraint says so with the user's line.
template <class... Given>
struct ContextDemand {
  static_assert(sizeof...(Given) > 100,
                "the context comes first, as in Linear(torch, 8, 4) of your kb::RuntimeContext");
  static constexpr bool kIsMet = true;
};
// True, if that compiled, for arguments that make a module once the context comes before them.
template <class Contained, class... Given>
inline constexpr bool kLacksContext = false;
template <class Contained, class... Given>
requires(
    !std::constructible_from<Contained, Given...> &&
    std::constructible_from<Contained, RuntimeContext&,
                            Given...>) inline constexpr bool kLacksContext<Contained, Given...> =
    ContextDemand<Given...>::kIsMet;
// An argument that is no context.
template <class Given>
concept NoContext = !std::same_as<std::remove_cvref_t<Given>, RuntimeContext>;

// A handle to a module, as torch::nn::ModuleHolder: copies refer to the same one.  Calling it calls
// the module's forward().
template <class Contained>
class ModuleHolder : public HolderBase {
 public:
  using ContainedType = Contained;

  // `Sequential net;` makes a module, as in libtorch, and `Sequential net = nullptr;` none.
  ModuleHolder() requires std::default_initializable<Contained>
      : module_(std::make_shared<Contained>()) {}
  ModuleHolder(std::nullptr_t) {}
  ModuleHolder(std::shared_ptr<Contained> module) : module_(std::move(module)) {}
  template <class First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, ModuleHolder> &&
           std::constructible_from<Contained, First, Rest...>) explicit ModuleHolder(First&& first,
                                                                                     Rest&&... rest)
      : module_(
            std::make_shared<Contained>(std::forward<First>(first), std::forward<Rest>(rest)...)) {}

  // Constructs a module from options in braces: `Linear(torch, 8, 16, {.dtype = kb::DType::f16})`.
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

  template <class Of = Contained>
  requires(!std::default_initializable<Of> && std::constructible_from<Of, RuntimeContext&>)
      ModuleHolder() {
    static_assert(ContextDemand<Of>::kIsMet);
  }
  template <class First, class... Rest>
  requires(!std::derived_from<std::remove_cvref_t<First>, ModuleHolder> &&
           kLacksContext<Contained, First, Rest...>) explicit ModuleHolder(First&&, Rest&&...) {}
  template <class A>
  requires kLacksContext<Contained, A, const TensorOptions&> ModuleHolder(A&&,
                                                                          const TensorOptions&) {}
  template <class A, class B>
  requires kLacksContext<Contained, A, B, const TensorOptions&> ModuleHolder(A&&, B&&,
                                                                             const TensorOptions&) {
  }

  // Throw CollectiveError KB-A010 for a handle to nothing: Linear(nullptr).
  Contained* operator->() const { return &contained(); }
  Contained& operator*() const { return contained(); }
  std::shared_ptr<Contained> ptr() const { return std::static_pointer_cast<Contained>(module_); }
  explicit operator bool() const { return module_ != nullptr; }
  // Module::clone(): `Net copy = net.clone();`.
  std::shared_ptr<Contained> clone() const {
    return std::static_pointer_cast<Contained>(contained().clone());
  }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    return contained().call_named(find_tensor(arguments...), [&] {
      if constexpr (takes_tensor<Arguments...>()) {
        if (contained().has_forward_hooks()) [[unlikely]] {
          return with_hooks(std::forward<Arguments>(arguments)...);
        }
      }
      return contained().forward(std::forward<Arguments>(arguments)...);
    });
  }

  // Indexes as libtorch does: layers[0] of a ModuleList.
  template <class Index>
  decltype(auto) operator[](Index&& index) const {
    return contained()[std::forward<Index>(index)];
  }

 private:
  Contained& contained() const {
    if (module_ == nullptr) [[unlikely]]
      refuse_empty_holder();
    return static_cast<Contained&>(*module_);
  }
  template <class First = void, class... Rest>
  static constexpr bool takes_tensor() {
    return std::derived_from<std::remove_cvref_t<First>, Tensor>;
  }

  template <class... Arguments>
  static const Tensor* find_tensor(const Arguments&... arguments) {
    if constexpr (takes_tensor<Arguments...>()) {
      const Tensor& first = std::get<0>(std::tie(arguments...));
      return &first;
    } else {
      return nullptr;
    }
  }

  template <class... Rest>
  auto with_hooks(const Tensor& given, Rest&&... rest) const {
    return contained().with_hooks(given, [&](const Tensor& input) {
      return contained().forward(input, std::forward<Rest>(rest)...);
    });
  }

  friend class Copies;
  std::shared_ptr<Module> module_;  // a Contained; one type for all holders is quicker to compile
};

}  // namespace kernbench::nn

// Declares `Name` as a handle to a `NameImpl` (TORCH_MODULE).
#define KERNBENCH_MODULE(Name)                                     \
  struct Name : ::kernbench::nn::ModuleHolder<Name##Impl> {        \
    using ::kernbench::nn::ModuleHolder<Name##Impl>::ModuleHolder; \
  }
