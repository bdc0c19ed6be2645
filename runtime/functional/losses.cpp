#include <fmt/format.h>

#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "sim_engine/base/enum_names.h"

namespace kernbench::nn::functional {

namespace {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (!is_enumerator(reduction, 3)) {
    ops::refuse_shapes("loss", fmt::format("there is no reduction {} here; there are: mean, sum, "
                                           "none",
                                           number_of(reduction)));
  }
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// The logarithm of a probability p, and of 1 - p, both at least -100.
tl::Tensor clamped_log(tl::Context& tl, const tl::Tensor& p) {
  return tl.maximum(tl.log(p), -100);
}

// The loss of a probability a against a target b.
constexpr ElementwiseOperator kBinaryCrossEntropy{
    "binary_cross_entropy",
    ops::Linearity::none,
    [](const Elements& of) {
      return of.b() * -clamped_log(of.tl, of.a()) - (1 - of.b()) * clamped_log(of.tl, 1 - of.a());
    },
    Computes::in_f32,
    {Derivative{[](const Elements& of) {
                  const tl::Tensor spread = of.tl.maximum((1 - of.a()) * of.a(), 1e-12);
                  return of.dy() * (of.a() - of.b()) / spread;
                },
                needs::kA | needs::kB},
     Derivative{[](const Elements& of) {
                  const tl::Tensor of_rest = clamped_log(of.tl, 1 - of.a());
                  return of.dy() * (of_rest - clamped_log(of.tl, of.a()));
                },
                needs::kA}}};

}  // namespace

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced(square(input - target), reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  return reduced(abs(input - target), reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BCEWithLogitsOptions& options) {
  if (input.shape() != target.shape()) {
    ops::refuse_shapes("binary_cross_entropy_with_logits",
                       fmt::format("Target size (torch.Size({})) must be the same as input size "
                                   "(torch.Size({}))",
                                   to_string(target.shape()), to_string(input.shape())));
  }
  // The loss is written as two positive summands, so that no digits cancel.
  const Tensor& factor = options.pos_weight;
  const Tensor positive = factor.defined() ? target * factor : target;
  const Tensor losses = (1 - target) * softplus(input) + positive * softplus(-input);
  return reduced(options.weight.defined() ? losses * options.weight : losses, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        Reduction reduction) {
  return binary_cross_entropy_with_logits(input, target,
                                          BCEWithLogitsOptions{.reduction = reduction});
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

Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction, double delta) {
  if (!(delta > 0)) {
    ops::refuse_shapes("huber_loss", fmt::format("delta is {}; a number above 0 is wanted", delta));
  }
  const Tensor distance = abs(input - target);
  return reduced(
      where(distance.detach() < delta, square(distance) * 0.5, (distance - 0.5 * delta) * delta),
      reduction);
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, Reduction reduction) {
  if (input.shape() != target.shape()) {
    ops::refuse_shapes(
        "binary_cross_entropy",
        fmt::format("Using a target size (torch.Size({})) that is different to the input "
                    "size (torch.Size({})) is refused",
                    to_string(target.shape()), to_string(input.shape())));
  }
  ops::check_operands("binary_cross_entropy", {input, target});
  check_probabilities("binary_cross_entropy", input);
  return reduced(apply(kBinaryCrossEntropy, {input, target}), reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  const Tensor share = options.log_target ? exp(target) : target;
  const Tensor logarithm = options.log_target ? target : log(where(target == 0, 1, target));
  const Tensor losses = share * (logarithm - input);
  if (options.reduction != Reduction::batchmean) return reduced(losses, options.reduction);
  return sum(losses) / (input.dim() == 0 ? 1 : input.size(0));
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim, double eps) {
  const auto length = [&](const Tensor& x) { return clamp(norm(x, 2, dim, true), eps); };
  return sum((a / length(a)) * (b / length(b)), dim);
}

Tensor nll_loss(const Tensor& of, const Tensor& of_target, Reduction reduction,
                std::int64_t ignore_index, const Tensor& weight) {
  ops::check_holders("nll_loss", {of, of_target});
  check_target_shape("nll_loss", of, of_target);
  const Tensor input = classes_in_rows(of);
  const std::int64_t classes = input.shape()[1];
  const Tensor target = of_target.dim() == 1 ? of_target : flatten(of_target);
  check_class_weight("nll_loss", weight, classes);
  check_id_type("nll_loss", target, classes);
  check_targets("nll_loss", target, classes, ignore_index);
  const Tensor column = target.detach().unsqueeze(1);
  const Tensor is_target = (column == numbers_beside(input, classes)) & (column != ignore_index);
  const Tensor weighted = weight.defined() ? input * weight.detach() : input;
  const Tensor losses = -sum(where(is_target, weighted, 0.0), 1);
  if (reduction != Reduction::mean) {
    return reduced(of_target.dim() == 1 ? losses : reshape(losses, of_target.shape()), reduction);
  }
  const Tensor count =
      weight.defined() ? sum(where(is_target, weight.detach(), 0.0)) : sum(is_target);
  return sum(losses) / count.to(input.dtype());
}

}  // namespace kernbench::nn::functional
