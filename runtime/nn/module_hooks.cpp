// The hooks of a module, around forward() and in backward().

#include <map>
#include <memory>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/nn/module.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

unsigned Module::register_forward_pre_hook(ForwardPreHook hook) {
  before_forward_[++hook_count_] = std::move(hook);
  return hook_count_;
}

unsigned Module::register_forward_hook(ForwardHook hook) {
  after_forward_[++hook_count_] = std::move(hook);
  return hook_count_;
}

void Module::remove_hook(unsigned number) {
  const std::size_t of_backward = on_backward_ == nullptr ? 0 : on_backward_->erase(number);
  if (on_backward_ != nullptr && on_backward_->empty()) on_backward_ = nullptr;
  if (before_forward_.erase(number) + after_forward_.erase(number) + of_backward > 0) return;
  throw CollectiveError("KB-A010", "there is no hook {} of this module", number);
}

// A hook may remove itself: the hooks of the beginning are called.
Tensor Module::call_before_forward(const Tensor& input) {
  Tensor present = input;
  for (const auto& [number, hook] : std::map(before_forward_)) {
    if (const Tensor changed = hook(*this, present); changed.defined()) present = changed;
  }
  return present;
}

Tensor Module::call_after_forward(const Tensor& input, const Tensor& output) {
  Tensor present = output;
  for (const auto& [number, hook] : std::map(after_forward_)) {
    if (const Tensor changed = hook(*this, input, present); changed.defined()) present = changed;
  }
  return present;
}

// The hooks are called when both gradients are known.  Input and output pass a node each, as in
// torch's BackwardHook.
struct Module::BackwardCall {
  std::weak_ptr<BackwardHooks> hooks;  // expires with the module
  Module* module = nullptr;
  Tensor grad_output;
  bool has_grad_input = false;

  Tensor call(Tensor grad_input) {
    const Tensor of_output = std::exchange(grad_output, {});
    const auto alive = hooks.lock();
    if (alive == nullptr) return grad_input;
    for (const auto& [number, hook] : BackwardHooks(*alive)) {  // which may remove itself
      if (Tensor changed = hook(*module, grad_input, of_output); changed.defined()) {
        grad_input = std::move(changed);
      }
    }
    return grad_input;
  }
};

unsigned Module::register_full_backward_hook(BackwardHook hook) {
  if (on_backward_ == nullptr) on_backward_ = std::make_shared<BackwardHooks>();
  (*on_backward_)[++hook_count_] = std::move(hook);
  return hook_count_;
}

std::shared_ptr<Module::BackwardCall> Module::begin_backward_hooks() {
  if (on_backward_ == nullptr) return nullptr;
  return std::make_shared<BackwardCall>(BackwardCall{on_backward_, this, {}, false});
}

Tensor Module::watch_input(const std::shared_ptr<BackwardCall>& call, const Tensor& input) {
  if (call == nullptr || !autograd::needs_grad(input)) return input;
  call->has_grad_input = true;
  return autograd::record("BackwardHookFunction", input, {input},
                          [call](const Tensor& dy) { return std::vector{call->call(dy)}; });
}

Tensor Module::watch_output(const std::shared_ptr<BackwardCall>& call, const Tensor& output) {
  if (call == nullptr || !autograd::needs_grad(output)) return output;
  return autograd::record("BackwardHookFunction", output, {output}, [call](const Tensor& dy) {
    call->grad_output = dy;
    if (!call->has_grad_input) call->call({});
    return std::vector{dy};
  });
}

}  // namespace kernbench::nn
