#include "runtime/nn/module.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "runtime/autograd/autograd.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

void kernbench::refuse_key(std::string_view key, std::string_view problem) {
  throw CollectiveError("KB-A010", "Key '{}' {}", key, problem);
}

namespace kernbench::nn {

namespace {

[[noreturn]] void refuse_name(const std::string& text) {
  throw CollectiveError("KB-A010", text);
}

void check_is_defined(std::string_view what, std::string_view name, const Tensor& tensor) {
  if (tensor.defined()) {
    if (tensor.is_host()) {
      runtime::check_on_device(tensor, fmt::format("register_{} '{}'", what, name));
    }
    return;
  }
  refuse_name(fmt::format("register_{} '{}' wants a tensor, not a handle to nothing", what, name));
}

std::vector<std::string> keys_beyond(const StateDict& from, const StateDict& in) {
  std::vector<std::string> keys;
  for (const auto& item : from) {
    if (!in.contains(item.key())) keys.push_back(item.key());
  }
  return keys;
}

// Says in torch's words what is wrong with these keys; empty if there are none.
std::string describe_problem(std::string_view what, const std::vector<std::string>& keys) {
  if (keys.empty()) return {};
  return fmt::format("\n  {} key(s) in state_dict: \"{}\". ", what, fmt::join(keys, "\", \""));
}

// The shapes of a state that are not the module's, in torch's words.
std::string wrong_shapes(const StateDict& own, const StateDict& state) {
  std::string problems;
  for (const auto& item : own) {
    const Tensor* const source = state.find(item.key());
    if (source == nullptr || source->shape() == item.value().shape()) continue;
    problems += fmt::format(
        "\n  size mismatch for {}: copying a param with shape {} from checkpoint, the shape in "
        "current model is {}.",
        item.key(), to_string(source->shape()), to_string(item.value().shape()));
  }
  return problems;
}

}  // namespace

namespace {

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last = 0;  // simulations may run in several threads
  return ++last;
}

}  // namespace

Module::Module() : serial_(next_serial()) {}

Module::~Module() {
  if (extension_ != nullptr) extension_->module_ends(*this);
}

void Module::check_name(std::string_view what, std::string_view name) const {
  if (name.empty()) refuse_name(fmt::format("{} name must not be empty", what));
  if (name.find('.') != std::string_view::npos) {
    refuse_name(fmt::format("{} name must not contain a dot (got '{}')", what, name));
  }
  if (parameters_.contains(name) || buffers_.contains(name) || children_.contains(name)) {
    refuse_name(fmt::format("{} '{}' already defined", what, name));
  }
}

Tensor Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name("Parameter", name);
  check_is_defined("parameter", name, tensor);
  if (requires_grad) tensor.requires_grad_();
  runtime::mark_memory(tensor, MemoryKind::parameter);
  return parameters_.insert(std::move(name), std::move(tensor));
}

Tensor Module::register_buffer(std::string name, Tensor tensor, bool persistent) {
  check_name("Buffer", name);
  check_is_defined("buffer", name, tensor);
  if (!persistent) not_persistent_.push_back(name);
  return buffers_.insert(std::move(name), std::move(tensor));
}

namespace {

bool contains(const Module& module, const Module& part) {
  return &module == &part || std::ranges::any_of(module.children(), [&](const auto& child) {
    return contains(*child, part);
  });
}

}  // namespace

void Module::add_child(std::string name, std::shared_ptr<Module> child) {
  check_name("Submodule", name);
  if (child == nullptr) {
    refuse_name(fmt::format(
        "Accessing empty ModuleHolder: register_module '{}' wants a module, not a handle to "
        "nothing; construct it, as in Linear(torch, 8, 4)",
        name));
  }
  if (contains(*child, *this)) {
    refuse_name(
        fmt::format("register_module '{}': this {} would be a part of itself; a module is "
                    "registered by what holds it alone",
                    name, this->name()));
  }
  children_.insert(std::move(name), std::move(child));
}

namespace {

// Adds the tensors of each child to a module's own ones; one that is there already keeps the name
// that it has.
OrderedDict<Tensor> with_children(OrderedDict<Tensor> all, const Module& module,
                                  OrderedDict<Tensor> (Module::*tensors_of)(bool) const) {
  std::unordered_set<const Tensor::Storage*> known;
  for (const auto& item : all) known.insert(item.value().storage().get());
  for (const auto& child : module.named_children()) {
    for (const auto& item : (*child.value().*tensors_of)(true)) {
      if (!known.insert(item.value().storage().get()).second) continue;
      all.insert(fmt::format("{}.{}", child.key(), item.key()), item.value());
    }
  }
  return all;
}

}  // namespace

OrderedDict<Tensor> Module::named_parameters(bool recurse) const {
  return recurse ? with_children(parameters_, *this, &Module::named_parameters) : parameters_;
}

OrderedDict<Tensor> Module::named_buffers(bool recurse) const {
  return recurse ? with_children(buffers_, *this, &Module::named_buffers) : buffers_;
}

std::vector<Tensor> Module::parameters(bool recurse) const {
  return named_parameters(recurse).values();
}

std::vector<Tensor> Module::buffers(bool recurse) const {
  return named_buffers(recurse).values();
}

std::vector<std::shared_ptr<Module>> Module::children() const {
  return children_.values();
}

StateDict Module::state_dict() const {
  StateDict state = parameters_;
  for (const auto& item : buffers_) {
    if (std::ranges::count(not_persistent_, item.key()) > 0) continue;
    state.insert(item.key(), item.value());
  }
  for (const auto& child : children_) {
    for (const auto& item : child.value()->state_dict()) {
      state.insert(fmt::format("{}.{}", child.key(), item.key()), item.value());
    }
  }
  return state;
}

IncompatibleKeys Module::load_state_dict(const StateDict& state, const LoadOptions& options) {
  const StateDict own = state_dict();
  IncompatibleKeys keys{keys_beyond(own, state), keys_beyond(state, own)};
  std::string problems;
  if (options.strict) {
    problems = describe_problem("Missing", keys.missing_keys) +
               describe_problem("Unexpected", keys.unexpected_keys);
  }
  problems += wrong_shapes(own, state);
  if (!problems.empty()) {
    throw CollectiveError("KB-A011", "Error(s) in loading state_dict:" + problems);
  }
  for (const auto& item : own) {
    const Tensor* const source = state.find(item.key());
    if (source == nullptr) continue;
    const NoGradGuard no_grad(*item.value().storage()->simulation);
    Tensor(item.value()).copy_(*source);
  }
  return keys;
}

void Module::train(bool on) {
  is_training_ = on;
  for (const auto& child : children_) child.value()->train(on);
}

namespace {

// Rounds a tensor in place.
void round_to(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return;
  const Tensor rounded = tensor.detach().to(dtype);
  runtime::set_data(*tensor.storage(), *rounded.storage());
}

}  // namespace

namespace {

// Lists all tensors of a module, with the gradients.
std::vector<Tensor> list_tensors(const Module& module) {
  std::vector<Tensor> all = module.parameters();
  for (const Tensor& parameter : module.parameters()) {
    if (parameter.grad().defined()) all.push_back(parameter.grad());
  }
  for (const Tensor& buffer : module.buffers()) all.push_back(buffer);
  return all;
}

void check_can_move(const Tensor& tensor, const Device& device) {
  if (device.is_host()) {
    throw DeviceError("KB-M024",
                      "Module::to(): modules compute on ahbm devices; for values on the host, use "
                      "cpu() of the tensors of state_dict(), or kb::nn::save() it");
  }
  if (tensor.storage()->shard_of == nullptr && tensor.storage()->memory->has_space) return;
  throw DeviceError(
      "KB-M024", "Module::to(): '{}' is sharded among ranks; move the module before fully_shard()",
      tensor.name());
}

}  // namespace

void Module::to(DType dtype) {
  if (is_integral(dtype)) {
    throw DeviceError(
        "KB-F002",
        "nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={}",
        torch_name_of(dtype));
  }
  for (const Tensor& tensor : list_tensors(*this)) {
    if (is_integral(tensor.dtype())) continue;  // counts and masks, as in torch
    const NoGradGuard no_grad(*tensor.storage()->simulation);
    round_to(tensor, dtype);
  }
}

void Module::to(const Device& device) {
  const std::vector<Tensor> tensors = list_tensors(*this);
  for (const Tensor& tensor : tensors) check_can_move(tensor, device);  // all move, or none
  for (const Tensor& tensor : tensors) {
    Tensor::Storage& storage = *tensor.storage();
    const int target = device.index_or(storage.simulation->local().device);
    if (target == storage.device) continue;
    runtime::set_data(storage, *runtime::copy_on(tensor.detach(), target).storage());
  }
}

void refuse_empty_holder() {
  throw CollectiveError("KB-A010", "Accessing empty ModuleHolder");
}

void Module::forward_has_thrown() noexcept {
  if (extension_ != nullptr) extension_->forward_has_thrown();
}

void Module::forward_returned_no_tensor() {
  if (extension_ != nullptr) extension_->forward_returned_no_tensor();
}

void Module::zero_grad(bool set_to_none) {
  nn::zero_grad(parameters(), set_to_none);
}

void zero_grad(std::vector<Tensor> parameters, bool set_to_none) {
  for (Tensor& parameter : parameters) {
    const Tensor grad = parameter.grad();
    if (set_to_none || !grad.defined()) {
      parameter.zero_grad();
    } else {
      grad.detach().zero_();
    }
  }
}

void Module::replace_parameter(const Tensor& from, const Tensor& to) {
  for (auto& item : parameters_) {
    if (item.value().storage() != from.storage()) continue;
    item.value() = to;
    runtime::mark_memory(to, MemoryKind::parameter);
  }
}

void Module::apply(const std::function<void(Module&)>& function) {
  for (const auto& child : children_) child.value()->apply(function);
  function(*this);
}

}  // namespace kernbench::nn
