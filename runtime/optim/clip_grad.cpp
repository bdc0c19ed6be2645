#include "runtime/optim/clip_grad.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/optim/fused_update.h"
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

tl::Tensor square_of(const tl::Tensor& g) {
  return g * g;
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       const ClipOptions& options) {
  const std::vector<Tensor> gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  const std::vector<double> squares = optim::sums("clip_grad_norm_", gradients, square_of);
  const double norm = std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0));
  if (options.error_if_nonfinite && !std::isfinite(norm)) {
    throw CollectiveError(
        "KB-A013",
        "The total norm of order 2.0 for gradients from `parameters` is non-finite, so it cannot "
        "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, "
        "set "
        "`error_if_nonfinite=False`");
  }
  const double coefficient = max_norm / (norm + 1e-6);
  const double factor = std::isnan(coefficient) ? coefficient : std::min(coefficient, 1.0);
  std::vector<optim::Assignment> scaled;
  for (const Tensor& gradient : gradients) scaled.push_back({gradient, gradient, factor});
  optim::assign("clip_grad_norm_", std::move(scaled),
                [](tl::Context&, const tl::Tensor& g, double number) { return g * number; });
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  std::vector<optim::Assignment> clipped;
  for (const Tensor& gradient : gradients_of(parameters)) {
    clipped.push_back({gradient, gradient, clip_value});
  }
  optim::assign("clip_grad_value_", std::move(clipped),
                [](tl::Context& tl, const tl::Tensor& g, double number) {
                  return tl.clamp(g, -number, number);
                });
}

}  // namespace kernbench::nn::utils
