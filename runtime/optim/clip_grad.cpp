
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "runtime/distributed/shard_spec.h"
#include "runtime/optim/fused_update.h"
#include "runtime/optim/optimizer.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::optim {

double sum_over_ranks(double number, const Tensor& like, const distributed::ProcessGroup& group) {
  RuntimeContext& torch = runtime::context_of(*like.storage()->simulation);
  const runtime::MadeAs buffers(*like.storage()->simulation, MemoryKind::communication);
  const Tensor sum = torch.tensor({static_cast<float>(number)}, {1}, {.dp = DPPolicy::on_one_pe()});
  torch.distributed.all_reduce(sum, {.group = group});
  return torch.options().data ? sum.item<double>() : 0;
}

}  // namespace kernbench::optim

namespace kernbench::nn::utils {

namespace {

// The parameters that have a gradient.
std::vector<Tensor> with_gradient(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> all;
  std::ranges::copy_if(parameters, std::back_inserter(all),
                       [](const Tensor& parameter) { return parameter.grad().defined(); });
  return all;
}

std::vector<Tensor> collect_gradients(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) gradients.push_back(parameter.grad().detach());
  return gradients;
}

tl::Tensor compute_square(const tl::Tensor& g) {
  return g * g;
}

// The square of the gradients' norm.  Each rank has a shard of a parameter that fully_shard has
// cut, so the ranks of each group add up their squares.
double total_square(const std::vector<Tensor>& parameters, const std::vector<double>& squares) {
  double total = 0;
  std::vector<std::pair<std::size_t, double>> shared;  // by the first parameter of each group
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& spec = parameters[i].storage()->shard_of;
    if (spec == nullptr) {
      total += squares[i];
      continue;
    }
    const auto known = std::ranges::find_if(shared, [&](const auto& sum) {
      return parameters[sum.first].storage()->shard_of->group == spec->group;
    });
    if (known == shared.end()) {
      shared.emplace_back(i, squares[i]);
    } else {
      known->second += squares[i];
    }
  }
  for (const auto& [first, sum] : shared) {
    total +=
        optim::sum_over_ranks(sum, parameters[first], parameters[first].storage()->shard_of->group);
  }
  return total;
}

}  // namespace

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       const ClipOptions& options) {
  const std::vector<Tensor> clipped = with_gradient(parameters);
  const std::vector<Tensor> gradients = collect_gradients(clipped);
  if (gradients.empty()) return 0;
  const double norm =
      std::sqrt(total_square(clipped, optim::sums("clip_grad_norm_", gradients, compute_square)));
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
  for (const Tensor& gradient : collect_gradients(with_gradient(parameters))) {
    clipped.push_back({gradient, gradient, clip_value});
  }
  optim::assign("clip_grad_value_", std::move(clipped),
                [](tl::Context& tl, const tl::Tensor& g, double number) {
                  return tl.clamp(g, -number, number);
                });
}

}  // namespace kernbench::nn::utils
