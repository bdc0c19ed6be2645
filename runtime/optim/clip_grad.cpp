#include "runtime/optim/clip_grad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/functional/elementwise.h"
#include "runtime/functional/reductions.h"
#include "runtime/ops/placement.h"
#include "runtime/optim/fused_update.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::utils {

namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad().detach());
  }
  return gradients;
}

void scale(const std::vector<Tensor>& gradients, double factor) {
  std::vector<optim::Update> updates;
  for (const Tensor& gradient : gradients) updates.push_back({gradient, gradient, {}, {factor}});
  optim::update("clip_grad_norm_", std::move(updates),
                [](tl::Context&, const optim::UpdateNumbers& numbers, optim::UpdateBlocks& of) {
                  of.parameter = of.gradient * numbers[0];
                });
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       const ClipOptions& options) {
  const std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  std::vector<Tensor> squares;
  for (const Tensor& gradient : gradients) {
    ops::check_is_whole("clip_grad_norm_", gradient);
    squares.push_back(sum(square(gradient.to(DType::f32))));
  }
  const bool has_data = gradients.front().storage()->simulation->machine().memory().has_data();
  double total = 0;
  for (const Tensor& one : squares) total += has_data ? one.item<double>() : 0;
  const double norm = std::sqrt(total);
  if (options.error_if_nonfinite && !std::isfinite(norm)) {
    throw CollectiveError(
        "KB-A013",
        "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot "
        "be "
        "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
        "`error_if_nonfinite=False`");
  }
  const double coefficient = max_norm / (norm + 1e-6);
  scale(gradients, std::isnan(coefficient) ? coefficient : std::min(coefficient, 1.0));
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  std::vector<optim::Update> updates;
  for (const Tensor& gradient : gradients_of(parameters)) {
    updates.push_back({gradient, gradient, {}, {clip_value}});
  }
  optim::update("clip_grad_value_", std::move(updates),
                [](tl::Context& tl, const optim::UpdateNumbers& numbers, optim::UpdateBlocks& of) {
                  of.parameter = tl.clamp(of.gradient, -numbers[0], numbers[0]);
                });
}

}  // namespace kernbench::nn::utils
