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

#include <fmt/core.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/nn/module_holder.h"
#include "runtime/nn/state.h"
#include "runtime/simulation/called_module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class Error;
class RuntimeContext;
}  // namespace kernbench

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
  // torch's words for an empty name, one with a dot, or one that is taken; for a handle to nothing;
  // and for a module that this one is part of.
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
  // Registers a module that is a member of this one and therefore lives as long, such as a layer of
  // tp.
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

  // Returns a module of the same class with parameters, buffers and submodules of its own (Python's
  // copy.deepcopy, libtorch's clone()): equal values in the same places, and what is shared in this
  // module is shared in the copy.  Options and the training flag are copied; gradients and hooks
  // are not, and no random number is drawn by a layer.  Each tensor is copied by a kernel on its
  // device, in the order of the stream, as Tensor::clone().  Throws CollectiveError KB-A010, in
  // libtorch's words, for a class that is no Cloneable, and for what fully_shard() has sharded.
  std::shared_ptr<Module> clone() const;

  // This module as a class or as what a holder contains, and null if it is none:
  // `module->as<kb::nn::Linear>()` and `as<kb::nn::LinearImpl>()` are a LinearImpl*.
  template <class Of>
  auto* as() {
    if constexpr (std::derived_from<Of, HolderBase>) {
      return dynamic_cast<typename Of::ContainedType*>(this);
    } else {
      return dynamic_cast<Of*>(this);
    }
  }
  template <class Of>
  const auto* as() const {
    return const_cast<Module*>(this)->as<Of>();  // NOLINT: what it returns is a constant again
  }

  // What to_string() prints, as Python does: the class without namespaces and "Impl", and what a
  // class says of itself in the parentheses behind it.
  virtual std::string name() const;
  virtual std::string extra_repr() const { return {}; }

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
  // hook(module, grad_input, grad_output), of such modules, when backward() knows the gradient of
  // the input, after that of the output.  The input's is undefined, and known when the output's is,
  // if the input needs none.  A tensor that a hook returns, if it is defined, takes its place.
  using BackwardHook =
      std::function<Tensor(Module& module, const Tensor& grad_input, const Tensor& grad_output)>;
  unsigned register_full_backward_hook(BackwardHook hook);
  // Throws CollectiveError KB-A010 if there is none of this number.
  void remove_hook(unsigned number);

  // Calls forward(input), and the hooks around it.  A module that is used without a handle, such as
  // a layer of tp, does so in its operator().
  template <std::invocable<const Tensor&> Forward>
  Tensor call(const Tensor& input, const Forward& forward) const {
    return call_named(&input, [&] {
      if (!has_forward_hooks()) return forward(input);
      auto& module = const_cast<Module&>(*this);  // NOLINT: no module with hooks is a constant
      return module.with_hooks(input, forward);
    });
  }

  // Returns what call() returns.  Its errors name the module by its path from the outermost one
  // ("in blocks.3.up (Linear)"), and so do kernels and collectives of a profiled run, which is that
  // of `input`; null: none.
  template <std::invocable Call>
  auto call_named(const Tensor* input, const Call& call) const {
    const runtime::InModule named = enter(input);
    try {
      return call();
    } catch (...) {
      name_in_error();
      throw;
    }
  }

  // operator() of handles calls these.
  bool has_forward_hooks() const {
    return !before_forward_.empty() || !after_forward_.empty() || on_backward_ != nullptr;
  }
  template <std::invocable<const Tensor&> Forward>
  auto with_hooks(const Tensor& input, const Forward& forward) {
    try {
      const std::shared_ptr<BackwardCall> backward = begin_backward_hooks();
      const Tensor taken = watch_input(backward, call_before_forward(input));
      auto output = forward(taken);
      if constexpr (std::is_same_v<decltype(output), Tensor>) {
        return watch_output(backward, call_after_forward(taken, output));
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
  friend class Copies;
  friend class CopyableModule;

  // While the result lives, what the caller launches belongs to this module, if the run of the
  // tensor is profiled.
  runtime::InModule enter(const Tensor* input) const;

  void name_parameters(runtime::RunLog& log, const std::string& path) const;

  // Returns the path of what belongs to a module from this one: "blocks.3.up"; nullopt if `part` is
  // no part of it.
  std::optional<std::string> find_path_to(const void* part) const;
  // Puts this module before the path of the error that is being handled, if it is an Error.
  void name_in_error() const noexcept;
  void add_to_place(Error& error) const;

  // Returns a copy whose handles refer to copies.  Throws KB-A010 unless a subclass can.
  virtual std::shared_ptr<Module> copied(Copies& copies) const;
  // Takes what `of`, of the same class, has: this module is the same part of a copy.
  virtual void adopt(const Module& of, Copies& copies);
  // Lets the members that are handles refer to copies.
  virtual void rebind(Copies&) {}
  [[noreturn]] void refuse_copy() const;

  using BackwardHooks = std::map<unsigned, BackwardHook>;
  struct BackwardCall;

  // A call of forward() whose gradients the backward hooks want; null without such hooks.
  std::shared_ptr<BackwardCall> begin_backward_hooks();
  static Tensor watch_input(const std::shared_ptr<BackwardCall>& call, const Tensor& input);
  static Tensor watch_output(const std::shared_ptr<BackwardCall>& call, const Tensor& output);
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
  std::shared_ptr<BackwardHooks> on_backward_;  // null: none; graphs know when the module ends
  unsigned hook_count_ = 0;
  bool is_training_ = true;
  const std::uint64_t serial_;  // of this one alone in the process; addresses are given again
  std::shared_ptr<Extension> extension_;
};

// "Linear(in_features=8, out_features=4, bias=True)", and for modules with submodules a line for
// each: what Python's repr() says of an equal module of torch.
std::string to_string(const Module& module);
std::ostream& operator<<(std::ostream& out, const Module& module);
template <std::derived_from<HolderBase> Holder>
std::ostream& operator<<(std::ostream& out, const Holder& holder) {
  return out << static_cast<const Module&>(*holder);
}

// Forgets the gradients of the parameters or, unless `set_to_none`, fills them with zeros.
void zero_grad(std::vector<Tensor> parameters, bool set_to_none);

}  // namespace kernbench::nn

// A handle to a module is printed as to_string() of the module.
template <std::derived_from<kernbench::nn::HolderBase> Holder>
struct fmt::formatter<Holder> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const Holder& holder, fmt::format_context& context) const {
    const kernbench::nn::Module& module = *holder;
    return fmt::formatter<std::string_view>::format(to_string(module), context);
  }
};

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

// These fill a matrix [out, in].  They throw DeviceError KB-F001 for fewer dimensions.
//   xavier   uniform within gain sqrt(6 / (in + out)), or normal with gain sqrt(2 / (in + out))
//   kaiming  uniform within sqrt(6 / ((1 + a^2) fan)), or normal with sqrt(2 / ((1 + a^2) fan)),
//            where fan is in, or out: activations keep their variance, or gradients do
enum class FanMode : std::uint8_t { fan_in, fan_out };
const Tensor& xavier_uniform_(const Tensor& tensor, double gain = 1);
const Tensor& xavier_normal_(const Tensor& tensor, double gain = 1);
const Tensor& kaiming_uniform_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);
const Tensor& kaiming_normal_(const Tensor& tensor, double a = 0, FanMode mode = FanMode::fan_in);

}  // namespace kernbench::nn::init
