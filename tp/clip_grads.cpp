#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/optim/fused_update.h"
#include "runtime/tensor/tensor_storage.h"
#include "tp/distributed_data_parallel.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

double sum_of_squares(const std::vector<Tensor>& gradients) {
  const auto square = [](const tl::Tensor& g) { return g * g; };
  const std::vector<double> squares = optim::sums("get_grad_norm", gradients, square);
  return std::accumulate(squares.begin(), squares.end(), 0.0);
}

// Gradients that ranks have parts of: those of parameters that fully_shard has cut over a group.
struct Sharded {
  distributed::ProcessGroup group;
  std::vector<Tensor> gradients;
};

void add(std::vector<Sharded>& all, const distributed::ProcessGroup& group,
         const Tensor& gradient) {
  auto found = std::ranges::find(all, group, &Sharded::group);
  if (found == all.end()) found = all.insert(found, {group, {}});
  found->gradients.push_back(gradient);
}

}  // namespace

double get_grad_norm(RuntimeContext& torch, const std::vector<Tensor>& counted, const Tensor& any,
                     const distributed::ProcessGroup& group) {
  const NoGradGuard no_grad(torch);
  return std::sqrt(optim::sum_over_ranks(sum_of_squares(counted), any, group));
}

double clip_grad_norm(RuntimeContext& torch, const std::vector<Parameter>& parameters,
                      double max_norm) {
  const NoGradGuard no_grad(torch);
  std::vector<Tensor> all;
  std::vector<Tensor> counted;
  std::vector<Sharded> sharded;
  for (const Parameter& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    all.push_back(parameter.grad().detach());
    if (!counts_in_norms(torch, parameter)) continue;
    const auto& shard = parameter.storage()->shard_of;
    shard == nullptr ? counted.push_back(all.back()) : add(sharded, shard->group, all.back());
  }
  if (all.empty()) wrong_layer("clip_grad_norm: no parameter of this rank has a gradient");
  double square = sum_of_squares(counted);
  for (const Sharded& parts : sharded) {
    square += optim::sum_over_ranks(sum_of_squares(parts.gradients), all.front(), parts.group);
  }
  const double norm =
      std::sqrt(optim::sum_over_ranks(square, all.front(), get_model_parallel_group(torch)));
  const double coefficient = max_norm / (norm + 1e-6);
  if (coefficient < 1) {
    for (Tensor& gradient : all) gradient.mul_(coefficient);
  }
  return norm;
}

}  // namespace kernbench::tp
