#include "runtime/functional/losses.h"

#include <fmt/format.h>

#include "runtime/functional/activations.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/reductions.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"

namespace kernbench::nn::functional {

namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced(square(input - target), reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced(abs(input - target), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        Reduction reduction) {
  if (input.shape() != target.shape()) {
    ops::refuse_shapes("binary_cross_entropy_with_logits",
                       fmt::format("Target size {} must be the same as input size {}",
                                   to_string(target.shape()), to_string(input.shape())));
  }
  // Both summands are positive, so that no digits cancel.
  return reduced((1 - target) * softplus(input) + target * softplus(-input), reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction, double beta) {
  if (!(beta >= 0)) {
    ops::refuse_shapes("smooth_l1_loss", fmt::format("beta is {}; 0 or above is wanted", beta));
  }
  if (beta == 0) return l1_loss(input, target, reduction);
  const Tensor distance = abs(input - target);
  return reduced(
      where(distance.detach() < beta, square(distance) * (0.5 / beta), distance - 0.5 * beta),
      reduction);
}

Tensor nll_loss(const Tensor& input, const Tensor& target, Reduction reduction,
                std::int64_t ignore_index) {
  ops::check_holders("nll_loss", {input, target});
  if (input.dim() != 2 || target.shape() != Shape{input.shape()[0]}) {
    ops::refuse_shapes("nll_loss",
                       fmt::format("Expected target {} for input {}, got {}",
                                   input.dim() == 2 ? to_string(Shape{input.shape()[0]}) : "[n]",
                                   to_string(input.shape()), to_string(target.shape())));
  }
  check_id_type("nll_loss", target, input.shape()[1]);
  check_targets("nll_loss", target, input.shape()[1], ignore_index);
  const Tensor column = target.detach().unsqueeze(1);
  const Tensor is_target =
      (column == numbers_beside(input, input.shape()[1])) & (column != ignore_index);
  const Tensor losses = -sum(where(is_target, input, 0.0), 1);
  if (reduction != Reduction::mean) return reduced(losses, reduction);
  return sum(losses) / sum(is_target).to(input.dtype());
}

}  // namespace kernbench::nn::functional
