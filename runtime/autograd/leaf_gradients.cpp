#include "runtime/autograd/leaf_gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/watched_gradient.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

namespace {

std::string describe(const Shape& shape, DType dtype, const ops::Placement& placement) {
  return fmt::format("{} {} ({})", to_string(shape), name_of(dtype), to_string(placement));
}

Tensor& grad_of(const Tensor& leaf) {
  return leaf.storage()->autograd->grad;
}

// Throws KB-A006 for a grad() that a user has assigned and that does not fit the leaf.
void check_assigned(const Tensor& leaf, const Tensor& grad) {
  if (grad.shape() != leaf.shape() || grad.dtype() != leaf.dtype()) {
    throw CollectiveError(
        "KB-A006",
        "assigned grad has data of a different {}: tensor '{}' is {} {}, its grad '{}' is {} {}",
        grad.shape() == leaf.shape() ? "type" : "size", leaf.name(), to_string(leaf.shape()),
        name_of(leaf.dtype()), grad.name(), to_string(grad.shape()), name_of(grad.dtype()));
  }
  check_gradient(grad, make_gradient_form(leaf), fmt::format("grad() of '{}'", leaf.name()));
}

// A leaf that is an activation is the input of a pipeline's stage, or of a checkpoint: its gradient
// goes on to who has computed it.
MemoryKind kind_of_grad(const Tensor& leaf) {
  const MemoryKind kind = leaf.storage()->memory->kind;
  const bool goes_on = kind == MemoryKind::activation || kind == MemoryKind::communication;
  return goes_on ? MemoryKind::autograd_detail : MemoryKind::gradient;
}

void add_to_grad(const Tensor& leaf, Tensor gradient) {
  Tensor& grad = grad_of(leaf);
  if (!grad.defined()) {
    grad = std::move(gradient);
    grad.storage()->name = leaf.name() + ".grad";
    runtime::mark_memory_beside(grad, leaf, kind_of_grad(leaf));
    return;
  }
  check_assigned(leaf, grad);
  ops::add_into(grad, gradient);
}

}  // namespace

void check_gradient(const Tensor& gradient, const GradientForm& form, std::string_view from) {
  runtime::check_on_device(gradient, *form.simulation, from);
  const ops::Placement placement = ops::placement_of(gradient);
  if (gradient.shape() == form.shape && gradient.dtype() == form.dtype &&
      ops::is_gradient_placement(placement, form.placement)) {
    return;
  }
  throw CollectiveError(
      "KB-A006",
      "{} - got {} but expected shape compatible with {}; a gradient has its tensor's placement, "
      "but is replicated where that is partial and may be partial where that is replicated",
      from, describe(gradient.shape(), gradient.dtype(), placement),
      describe(form.shape, form.dtype, form.placement));
}

Tensor with_hooks(const Hooks& hooks, Tensor gradient, const GradientForm& form) {
  for (const Hooks::OnGradient& hook : std::vector(hooks.on_gradient)) {  // which it may change
    const WatchedGradient watched(gradient);
    Tensor other = hook.call(gradient);
    watched.check("a hook on a gradient");
    if (!other.defined()) continue;
    check_gradient(other, form, "a hook on a gradient returned another one");
    gradient = std::move(other);
  }
  return gradient;
}

void set_grad(const Tensor& leaf, const Tensor& gradient) {
  runtime::mark_memory_beside(gradient, leaf, MemoryKind::gradient);
  leaf.mutable_grad() = gradient;
}

Tensor LeafGradients::take(const Tensor& leaf) {
  auto sum = sums_.extract(leaf.storage().get());
  if (sum.empty()) return {};
  return with_hooks(leaf.storage()->autograd->hooks, sum.mapped().take(leaf.shape()),
                    make_gradient_form(leaf));
}

void LeafGradients::give_before(std::uint64_t next, Waits waits) {
  while (given_ < reached_.size() && (reached_[given_].last > next || next == 0)) {
    std::ranges::move(take_completed_by(reached_[given_].last), std::back_inserter(waiting_));
    give_waiting(waits);
  }
  if (!waiting_.empty()) give_waiting(waits);
}

void LeafGradients::give_waiting(Waits waits) {
  std::vector<Complete> all = std::move(waiting_);
  waiting_.clear();
  if (waits == Waits::while_deferred) {
    const auto rest = std::ranges::stable_partition(all, [](const Complete& one) {
      const Hooks& hooks = one.leaf.storage()->autograd->hooks;
      return !one.gradient.defined() || one.gradient.storage()->memory->deferred == nullptr ||
             !hooks.after_accumulation.empty() || !hooks.on_reach.empty();
    });
    std::ranges::move(rest, std::back_inserter(waiting_));
    all.erase(rest.begin(), rest.end());
  }
  compute(all);
  make_own(all);
  for (Complete& one : all) {
    if (one.gradient.defined()) {
      add_to_grad(one.leaf, std::move(one.gradient));
      call_after_accumulation(one.leaf);
    }
    // A copy, since a hook may add one.
    for (const auto& hook : std::vector(one.leaf.storage()->autograd->hooks.on_reach)) hook();
  }
}

void LeafGradients::compute(const std::vector<Complete>& all) {
  std::vector<Tensor> gradients;
  for (const Complete& one : all) {
    if (one.gradient.defined()) gradients.push_back(one.gradient);
  }
  ops::compute(gradients);
}

// All gradients are taken before one is added to a grad(), which may itself be a gradient here.
std::vector<LeafGradients::Complete> LeafGradients::take_completed_by(std::uint64_t node) {
  std::vector<Complete> all;
  for (; given_ < reached_.size() && reached_[given_].last == node; ++given_) {
    const Tensor& leaf = reached_[given_].leaf;
    auto sum = sums_.extract(leaf.storage().get());
    if (!leaf.requires_grad()) continue;
    const Hooks& hooks = leaf.storage()->autograd->hooks;
    if (sum.empty()) {
      if (!hooks.on_reach.empty()) all.push_back({leaf, {}});
      continue;
    }
    Tensor gradient = sum.mapped().take(leaf.shape());
    if (!hooks.on_gradient.empty()) {
      gradient = with_hooks(hooks, std::move(gradient), make_gradient_form(leaf));
    }
    all.push_back({leaf, std::move(gradient)});
  }
  return all;
}

// A gradient that becomes a grad(), or shares memory with one, must be nobody else's.
void LeafGradients::make_own(std::vector<Complete>& all) {
  const auto is_grad_of_leaf = [&](const Tensor& gradient) {
    return is_shared(gradient) && std::ranges::any_of(all, [&](const Complete& other) {
             const Tensor& grad = grad_of(other.leaf);
             return grad.defined() && grad.storage()->memory == gradient.storage()->memory;
           });
  };
  for (Complete& one : all) {
    if (!one.gradient.defined()) continue;
    if (!grad_of(one.leaf).defined() || is_grad_of_leaf(one.gradient)) {
      one.gradient = writable(std::move(one.gradient));
    }
  }
}

}  // namespace kernbench::autograd
