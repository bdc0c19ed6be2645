// Hooks on tensors' gradients, and what backward() leaves in grad().

#include <utility>

#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/node.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

// Returns the hooks of a tensor that requires a gradient.
autograd::Hooks& checked_hooks(const Tensor& tensor) {
  if (!tensor.requires_grad()) {
    throw CollectiveError("KB-A014",
                          "cannot register a hook on a tensor that doesn't require gradient: '{}'; "
                          "requires_grad_() it first",
                          tensor.name());
  }
  autograd::Meta& meta = *tensor.storage()->autograd;
  return meta.recorded != nullptr ? meta.recorded->hooks : meta.hooks;
}

}  // namespace

unsigned Tensor::add_hook(std::function<Tensor(const Tensor& gradient)> hook) const {
  autograd::Hooks& hooks = checked_hooks(*this);
  hooks.on_gradient.push_back({hooks.count, std::move(hook)});
  return hooks.count++;
}

unsigned Tensor::register_post_accumulate_grad_hook(
    std::function<void(const Tensor& leaf)> hook) const {
  autograd::Hooks& hooks = checked_hooks(*this);
  if (!is_leaf()) {
    throw CollectiveError("KB-A014",
                          "post accumulate grad hooks cannot be registered on non-leaf tensors: "
                          "'{}' was computed; register_hook() takes it",
                          name());
  }
  hooks.after_accumulation.push_back({hooks.count, std::move(hook)});
  return hooks.count++;
}

void Tensor::remove_hook(unsigned number) const {
  autograd::Hooks& hooks = checked_hooks(*this);
  const auto has_number = [number](const auto& hook) { return hook.number == number; };
  if (std::erase_if(hooks.on_gradient, has_number) +
          std::erase_if(hooks.after_accumulation, has_number) ==
      0) {
    throw CollectiveError("KB-A014", "'{}' has no hook number {}", name(), number);
  }
}

void Tensor::retain_grad() const {
  if (!requires_grad()) {
    throw CollectiveError("KB-A014",
                          "can't retain_grad on Tensor that has requires_grad=False: '{}'", name());
  }
  if (!is_leaf()) checked().autograd->recorded->retains_grad = storage_;
}

void autograd::add_reach_hook(const Tensor& leaf, std::function<void()> hook) {
  checked_hooks(leaf).on_reach.push_back(std::move(hook));
}

void autograd::call_after_accumulation(const Tensor& leaf) {
  // A copy, since a hook may remove itself.
  for (const auto& hook : std::vector(leaf.storage()->autograd->hooks.after_accumulation)) {
    hook.call(leaf);
  }
}

}  // namespace kernbench
