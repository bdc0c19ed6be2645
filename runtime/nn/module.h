// torch::nn::Module: what has parameters, buffers and submodules.
//
//   struct NetImpl : kb::nn::Module {
//     explicit NetImpl(kb::RuntimeContext& torch)
//         : up(register_module("up", kb::nn::Linear(torch, 64, 256))),
//           down(register_module("down", kb::nn::Linear(torch, 256, 64))) {}
//     kb::Tensor forward(const kb::Tensor& x) { return down(relu(up(x))); }
//     kb::nn::Linear up, down;
//   };
//   KERNBENCH_MODULE(Net);  // Net net(torch); net(x); net->parameters();

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/nn/state.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"
#include "sim_engine/base/memory.h"

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

class Module;
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
  std::shared_ptr<Contained> ptr() const { return std::static_pointer_cast<Contained>(module_); }
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
    return static_cast<Contained&>(*module_);
  }
  template <class First = void, class... Rest>
  static constexpr bool takes_tensor() {
    return std::derived_from<std::remove_cvref_t<First>, Tensor>;
  }

  template <class... Rest>
  auto with_hooks(const Tensor& given, Rest&&... rest) const {
    return contained().with_hooks(given, [&](const Tensor& input) {
      return contained().forward(input, std::forward<Rest>(rest)...);
    });
  }

  std::shared_ptr<Module> module_;  // a Contained; one type for all holders is quicker to compile
};

}  // namespace kernbench::nn

// Declares `Name` as a handle to a `NameImpl` (TORCH_MODULE).
#define KERNBENCH_MODULE(Name)                                     \
  struct Name : ::kernbench::nn::ModuleHolder<Name##Impl> {        \
    using ::kernbench::nn::ModuleHolder<Name##Impl>::ModuleHolder; \
  }

namespace kernbench::nn {

struct LoadOptions {
  bool strict = true;  // names must be those of the module
};

// The names that a state lacks, and those that the module has not.
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;
  std::vector<std::string> unexpected_keys;
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  Module();
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Give a name to what belongs to the module, and return it.  Throw CollectiveError KB-A010 in
  // torch's words for an empty name, one with a dot, or one that is taken.
  Tensor register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  // A buffer that is not persistent is no part of state_dict().
  Tensor register_buffer(std::string name, Tensor tensor, bool persistent = true);
  template <class Of>
  std::shared_ptr<Of> register_module(std::string name, std::shared_ptr<Of> module) {
    add_child(std::move(name), module);
    return module;
  }
  template <class Of>
  requires std::derived_from<Of, HolderBase> Of register_module(std::string name, Of holder) {
    add_child(std::move(name), holder.ptr());
    return holder;
  }
  // For a module that is a member of this one, and so lives as long, such as a layer of tp.
  template <class Of>
  requires std::derived_from<Of, Module> Of& register_module(std::string name, Of& member) {
    add_child(std::move(name), std::shared_ptr<Module>(std::shared_ptr<void>(), &member));
    return member;
  }

  // Parameters and buffers: the module's own in the order of registration, then those of its
  // submodules, named "up.weight".  One that is registered several times is listed once.
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  const OrderedDict<std::shared_ptr<Module>>& named_children() const { return children_; }

  // Returns handles to the parameters and buffers: they change with the module.
  StateDict state_dict() const;
  // Copies values into the parameters and buffers of these names, over the host link.  Throws
  // CollectiveError KB-A011, with all names that are missing or unexpected, if it is strict, and
  // all shapes that differ.
  IncompatibleKeys load_state_dict(const StateDict& state, const LoadOptions& options = {});

  // Switch layers that behave differently in training, such as Dropout.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return is_training_; }

  // Rounds parameters, buffers and gradients to a type, but for those of integers, in place: all
  // handles to them see it, and optimizers keep their parameters.  Call it before a graph is
  // recorded.  Throws DeviceError KB-F002, in torch's words, for a type of integers.
  void to(DType dtype);
  // Moves parameters, buffers and gradients to a device, likewise: call it before optimizers are
  // made and fully_shard() is called.  Throws DeviceError KB-M024 for "cpu", where no module
  // computes, and for what fully_shard() has sharded.
  void to(const Device& device);

  // operator() of a handle, or of a layer of tp, calls these hooks around forward(), which itself
  // calls none, as in torch.  In the order of registration:
  // hook(module, input) before it, and hook(module, input, output) after it.  A tensor that a hook
  // returns, if it is defined, takes the place of the input, or of the output.  They are called for
  // modules whose forward() takes a tensor first and, after it, if it returns one.  Each returns a
  // number for remove_hook().
  using ForwardPreHook = std::function<Tensor(Module& module, const Tensor& input)>;
  using ForwardHook =
      std::function<Tensor(Module& module, const Tensor& input, const Tensor& output)>;
  unsigned register_forward_pre_hook(ForwardPreHook hook);
  unsigned register_forward_hook(ForwardHook hook);
  // Throws CollectiveError KB-A010 if there is none of this number.
  void remove_hook(unsigned number);

  // Calls forward(input), and the hooks around it.  A module that is used without a handle, such as
  // a layer of tp, does so in its operator().
  template <std::invocable<const Tensor&> Forward>
  Tensor call(const Tensor& input, const Forward& forward) const {
    if (!has_forward_hooks()) return forward(input);
    auto& module = const_cast<Module&>(*this);  // NOLINT: no module with hooks is a constant
    return module.with_hooks(input, forward);
  }

  // For operator() of handles.
  bool has_forward_hooks() const { return !before_forward_.empty() || !after_forward_.empty(); }
  template <std::invocable<const Tensor&> Forward>
  auto with_hooks(const Tensor& input, const Forward& forward) {
    try {
      const Tensor taken = call_before_forward(input);
      auto output = forward(taken);
      if constexpr (std::is_same_v<decltype(output), Tensor>) {
        return call_after_forward(taken, output);
      } else {
        forward_returned_no_tensor();
        return output;
      }
    } catch (...) {
      forward_has_thrown();
      throw;
    }
  }

  // Drops the parameters' gradients; with set_to_none = false, fills them with 0.
  void zero_grad(bool set_to_none = true);
  // Calls function(module) for all submodules, then for this module.
  void apply(const std::function<void(Module&)>& function);

  // Puts `to` in the place of this module's own parameter `from`, for parameters() and all that
  // lists them; what has a handle to `from`, such as forward(), goes on using that.  Does nothing
  // if it has no such parameter.
  void replace_parameter(const Tensor& from, const Tensor& to);

  // The state of what changes how the module runs, such as fully_shard; it lives with the module.
  struct Extension {
    virtual ~Extension() = default;
    // operator() of a handle calls the first two when forward() has ended so, and the module's
    // destructor the third.
    virtual void forward_has_thrown() noexcept {}
    virtual void forward_returned_no_tensor() {}
    virtual void module_ends(Module&) noexcept {}
  };
  const std::shared_ptr<Extension>& extension() const { return extension_; }
  void set_extension(std::shared_ptr<Extension> extension) { extension_ = std::move(extension); }

 private:
  Tensor call_before_forward(const Tensor& input);
  Tensor call_after_forward(const Tensor& input, const Tensor& output);
  void forward_has_thrown() noexcept;  // or a hook has
  void forward_returned_no_tensor();
  void add_child(std::string name, std::shared_ptr<Module> child);
  void check_name(std::string_view what, std::string_view name) const;

  OrderedDict<Tensor> parameters_;
  OrderedDict<Tensor> buffers_;
  std::vector<std::string> not_persistent_;
  OrderedDict<std::shared_ptr<Module>> children_;
  std::map<unsigned, ForwardPreHook> before_forward_;
  std::map<unsigned, ForwardHook> after_forward_;
  unsigned hook_count_ = 0;
  bool is_training_ = true;
  std::shared_ptr<Extension> extension_;
};

// Forgets the gradients of the parameters or, unless `set_to_none`, fills them with zeros.
void zero_grad(std::vector<Tensor> parameters, bool set_to_none);

}  // namespace kernbench::nn

namespace kernbench::nn::init {

// torch.nn.init: initial values of parameters, without recording.  They take no simulated time.

const Tensor& uniform_(const Tensor& tensor, double low = 0, double high = 1);
const Tensor& normal_(const Tensor& tensor, double mean = 0, double std = 1);
const Tensor& constant_(const Tensor& tensor, double value);
const Tensor& ones_(const Tensor& tensor);
const Tensor& zeros_(const Tensor& tensor);
// The identity, of a matrix.  Throws DeviceError KB-F001 for other dimensions.
const Tensor& eye_(const Tensor& tensor);
// Normal, but drawn again until it lies in [a, b].
const Tensor& trunc_normal_(const Tensor& tensor, double mean = 0, double std = 1, double a = -2,
                            double b = 2);

// Of a matrix [out, in].  Throw DeviceError KB-F001 for fewer dimensions.
//   xavier   uniform within gain sqrt(6 / (in + out)), or normal with gain sqrt(2 / (in + out))
//   kaiming  uniform within sqrt(6 / ((1 + a^2) fan)), or normal with sqrt(2 / ((1 + a^2) fan)),
//            where fan is in, or out: activations keep their variance, or gradients do
enum class FanMode : std::uint8_t { fan_in, fan_out };
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);
const Tensor& kaiming_uniform_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);
const Tensor& kaiming_normal_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);

}  // namespace kernbench::nn::init
