#include "runtime/nn/containers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/operators.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

namespace {

[[noreturn]] void refuse_clone(const std::string& text) {
  throw CollectiveError("KB-A010", "clone(): " + text);
}

bool is_sharded(const Tensor& tensor) {
  return !tensor.is_host() &&
         (tensor.storage()->shard_of != nullptr || !tensor.storage()->memory->has_space);
}

// The same values in the same place.
Tensor copy_of(const Tensor& tensor) {
  if (is_sharded(tensor)) {
    refuse_clone(
        fmt::format("'{}' is sharded among ranks: FSDP does not support deepcopy. Please "
                    "use state dict for serialization.",
                    tensor.name()));
  }
  const Tensor::Storage& own = *tensor.storage();
  const Tensor copy = own.is_host()
                          ? Tensor(runtime::make_host_storage(own.shape, *own.host, own.dtype))
                          : tensor.detach().clone();
  copy.storage()->name = own.name;
  copy.storage()->dp = own.dp;  // as it was asked for: "all cubes" rather than their number
  if (tensor.requires_grad()) copy.requires_grad_();
  return copy;
}

std::string count_text(std::string_view what, std::string_view function) {
  return fmt::format(
      "The cloned module does not have the same {} as the original module after calling reset(). "
      "Are you sure you called {}() inside reset() and not the constructor?",
      what, function);
}

template <class Value>
void check_keys(const OrderedDict<Value>& a, const OrderedDict<Value>& b, std::string_view what,
                std::string_view function) {
  if (a.keys() != b.keys()) refuse_clone(count_text(what, function));
}

}  // namespace

Copies::CopiedTensor* Copies::find(const Tensor& from) {
  const auto found = std::ranges::find(tensors_, from.storage().get(),
                                       [](const auto& one) { return one.from.storage().get(); });
  return found == tensors_.end() ? nullptr : &*found;
}

Tensor Copies::of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (const CopiedTensor* const made = find(tensor)) return made->to;
  return tensors_.emplace_back(tensor, copy_of(tensor)).to;
}

std::shared_ptr<Module> Copies::of(const Module& module) {
  if (const auto made = modules_.find(&module); made != modules_.end()) return made->second;
  if (module.extension() != nullptr) {
    refuse_clone(
        "fully_shard() has changed this module: FSDP does not support deepcopy. Please "
        "use state dict for serialization.");
  }
  return modules_[&module] = module.copied(*this);
}

void Copies::adopt(const std::string& name, const Tensor& into, const Tensor& from) {
  const CopiedTensor* const made = find(from);
  const auto is_into = [&](const CopiedTensor& one) { return one.to.storage() == into.storage(); };
  if (made != nullptr && is_into(*made)) return;
  if (made != nullptr || std::ranges::any_of(tensors_, is_into)) {
    refuse_clone(
        fmt::format("other modules share '{}' in the module than in its copy after "
                    "reset(); register what is shared in reset()",
                    name));
  }
  if (into.shape() != from.shape() || into.is_host() != from.is_host()) {
    refuse_clone(fmt::format("reset() makes '{}' with shape {}, and the module has {}", name,
                             to_string(into.shape()), to_string(from.shape())));
  }
  const Tensor copy = copy_of(from);
  if (into.is_host()) {
    into.storage()->host = copy.storage()->host;
    into.storage()->dtype = copy.dtype();
  } else {
    runtime::set_data(*into.storage(), *copy.storage());
    into.requires_grad_(from.requires_grad());
  }
  into.storage()->name = from.name();
  tensors_.emplace_back(from, into);
}

void Copies::adopt(const std::shared_ptr<Module>& into, const Module& from) {
  const Module& target = *into;
  if (typeid(target) != typeid(from)) {
    refuse_clone(
        "Attempted to clone submodule, but it is of a different type than the submodule it was to "
        "be cloned into");
  }
  std::shared_ptr<Module>& known = modules_[&from];
  if (known == into) return;
  known = into;
  into->adopt(from, *this);
}

std::shared_ptr<Module> Module::clone() const {
  return Copies().of(*this);
}

std::shared_ptr<Module> Module::copied(Copies&) const {
  refuse_copy();
}

void Module::refuse_copy() const {
  refuse_clone(fmt::format(
      "clone() has not been implemented for {0}. Subclass kb::nn::Cloneable<{0}Impl> instead of "
      "kb::nn::Module to inherit the ability to clone.",
      name()));
}

void Module::adopt(const Module& of, Copies& copies) {
  check_keys(parameters_, of.parameters_, "number of parameters", "register_parameter");
  check_keys(buffers_, of.buffers_, "number of buffers", "register_buffer");
  check_keys(children_, of.children_, "number of child modules", "register_module");
  is_training_ = of.is_training_;
  for (const auto& [name, own] : parameters_) copies.adopt(name, own, of.parameters_[name]);
  for (const auto& [name, own] : buffers_) copies.adopt(name, own, of.buffers_[name]);
  for (const auto& [name, own] : children_) copies.adopt(own, *of.children_[name]);
}

void CopyableModule::take_registered(const Module& of) {
  parameters_ = of.parameters_;
  buffers_ = of.buffers_;
  not_persistent_ = of.not_persistent_;
  children_ = of.children_;
  is_training_ = of.is_training_;
}

void CopyableModule::rebind_all(Copies& copies) {
  for (auto& item : parameters_) item.value() = copies.of(item.value());
  for (auto& item : buffers_) item.value() = copies.of(item.value());
  for (auto& item : children_) item.value() = copies.of(*item.value());
  rebind(copies);
}

void CopyableModule::check_is_all(bool is_all) const {
  if (!is_all) refuse_copy();
}

Tensor AnyModule::operator()(const Tensor& x) const {
  Module& module = **this;
  if (forward_ == nullptr) {
    throw CollectiveError("KB-A010",
                          "forward() of this {} does not make a tensor of one alone; call what "
                          "as<...>() returns",
                          module.name());
  }
  return module.call(x, [&](const Tensor& input) { return forward_(module, input); });
}

Module& AnyModule::operator*() const {
  if (module_ == nullptr) refuse_empty_holder();
  return *module_;
}

void refuse_index(std::string_view container, std::size_t index, std::size_t size) {
  throw CollectiveError("KB-A010", "{}: index {} is out of range: it has {} modules", container,
                        index, size);
}

SequentialImpl::SequentialImpl(const std::vector<Named<AnyModule>>& modules) {
  for (const auto& [name, module] : modules) push_back(name, module);
}

void SequentialImpl::push_back(std::string name, const AnyModule& module) {
  register_module(std::move(name), module);
  modules_.push_back(module);
}

const AnyModule& SequentialImpl::operator[](std::size_t i) const {
  if (i >= size()) refuse_index("Sequential", i, size());
  return modules_[i];
}

Tensor SequentialImpl::forward(const Tensor& x) const {
  Tensor y = x;
  for (const AnyModule& module : modules_) y = module(y);
  return y;
}

void SequentialImpl::rebind(Copies& copies) {
  for (AnyModule& module : modules_) copies.rebind(module);
}

}  // namespace kernbench::nn
