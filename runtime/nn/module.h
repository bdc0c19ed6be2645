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
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/nn/module_holder.h"
#include "runtime/nn/ordered_dict.h"
#include "runtime/nn/state.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn {

struct LoadOptions {
  bool strict = true;  // names must be those of the module
};

class Module : public std::enable_shared_from_this<Module> {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Give a name to what belongs to the module, and return it.  Throw CollectiveError KB-A010 in
  // torch's words for an empty name, one with a dot, or one that is taken.
  Tensor register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor register_buffer(std::string name, Tensor tensor);
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

  // Parameters and buffers: the module's own in the order of registration, then those of its
  // submodules, named "up.weight".  One that is registered several times is listed once.
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  const OrderedDict<std::shared_ptr<Module>>& named_children() const { return children_; }

  // Returns handles to the parameters and buffers: they change with the module.
  StateDict state_dict() const;
  // Copies values into the parameters and buffers of these names, over the host link.  Throws
  // CollectiveError KB-A011, with all names that are missing or unexpected and all shapes that
  // differ.
  void load_state_dict(const StateDict& state, const LoadOptions& options = {});

  // Switch layers that behave differently in training, such as Dropout.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const { return is_training_; }

  // Drops the parameters' gradients; with set_to_none = false, fills them with 0.
  void zero_grad(bool set_to_none = true);
  // Calls function(module) for all submodules, then for this module.
  void apply(const std::function<void(Module&)>& function);

 private:
  void add_child(std::string name, std::shared_ptr<Module> child);
  void check_name(std::string_view what, std::string_view name) const;

  OrderedDict<Tensor> parameters_;
  OrderedDict<Tensor> buffers_;
  OrderedDict<std::shared_ptr<Module>> children_;
  bool is_training_ = true;
};

// Forgets the gradients of the parameters or, unless `set_to_none`, fills them with zeros.
void zero_grad(std::vector<Tensor> parameters, bool set_to_none);

}  // namespace kernbench::nn
