#include "runtime/autograd/backward_start.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/leaf_gradients.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/strided_copy.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::autograd {

namespace {

// True if the gradient shares memory with the grad() of a leaf, which the pass will write.
bool is_grad_of(const std::vector<ReachedLeaf>& leaves, const Tensor& gradient) {
  return std::ranges::any_of(leaves, [&](const ReachedLeaf& reached) {
    const Tensor grad = reached.leaf.grad();
    return grad.defined() && grad.storage()->memory == gradient.storage()->memory;
  });
}

}  // namespace

void check_requires_grad(const Tensor& output, std::size_t n) {
  if (output.requires_grad()) return;
  throw CollectiveError(
      "KB-A001",
      "element {} of tensors does not require grad and does not have a grad_fn: tensor '{}' was "
      "not computed, with gradients enabled, from one that requires_grad_()",
      n, output.name());
}

Tensor first_gradient(const Tensor& output, const Tensor& gradient) {
  const GradientForm form = make_gradient_form(output);
  if (gradient.defined()) {
    check_gradient(gradient, form, "Mismatch of gradient and tensor");
    return ops::dense(gradient);
  }
  if (output.numel() != 1) {
    throw CollectiveError("KB-A003",
                          "grad can be implicitly created only for scalar outputs: tensor '{}' is "
                          "{}; sum() it, or give a gradient of that shape",
                          output.name(), to_string(output.shape()));
  }
  Tensor one = ops::make_like(output, "grad", form.shape, form.dtype,
                              ops::gradient_placement(form.placement));
  runtime::fill(*one.storage(), 1);
  runtime::mark_memory(one, MemoryKind::autograd_detail);
  return one;
}

BackwardStart start_of(const Tensor& output, const Tensor& gradient) {
  Tensor first = first_gradient(output, gradient);
  const auto& meta = output.storage()->autograd;
  GradientEdge edge{meta->recorded, meta->recorded == nullptr ? output : Tensor(),
                    make_gradient_form(output)};
  Reached reached = reached_from({edge}, NodeList::of(*output.storage()->simulation));
  if (is_grad_of(reached.leaves, first)) first = ops::make_copy(first);
  return {std::move(edge), std::move(first), std::move(reached)};
}

}  // namespace kernbench::autograd
