#include <algorithm>
#include <cmath>

#include "runtime/autograd/autograd.h"
#include "runtime/distributed/shard_spec.h"
#include "runtime/functional/operators.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor_storage.h"
#include "tp/distributed_data_parallel.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

namespace {

// An f32 number for each placement: those of tensors that are cut are summands of holders.
using Totals = std::vector<Tensor>;

void add(Totals& totals, const Tensor& number) {
  const auto alike = std::ranges::find_if(totals, [&](const Tensor& total) {
    return ops::placement_of(total) == ops::placement_of(number);
  });
  if (alike == totals.end()) {
    totals.push_back(number);
  } else {
    *alike = *alike + number;
  }
}

// At least one number, beside `any`.
Totals sums_of_squares(const std::vector<Tensor>& gradients, const Tensor& any) {
  Totals totals;
  for (const Tensor& gradient : gradients) add(totals, gradient.to(DType::f32).square().sum());
  if (gradients.empty()) {
    totals.push_back(any.to(DType::f32).sum());
    totals.front().zero_();
  }
  return totals;
}

double norm_over(RuntimeContext& torch, const Totals& totals,
                 const distributed::ProcessGroup& group) {
  double square = 0;
  for (const Tensor& total : totals) {
    torch.distributed.all_reduce(total, {.group = group});
    if (torch.options().data) square += total.item<double>();
  }
  return std::sqrt(square);
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
  return norm_over(torch, sums_of_squares(counted, any), group);
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
  Totals totals = sums_of_squares(counted, all.front());
  for (const Sharded& parts : sharded) {
    for (const Tensor& own : sums_of_squares(parts.gradients, all.front())) {
      torch.distributed.all_reduce(own, {.group = parts.group});
      add(totals, own);
    }
  }
  const double norm = norm_over(torch, totals, get_model_parallel_group(torch));
  const double coefficient = max_norm / (norm + 1e-6);
  if (coefficient < 1) {
    for (Tensor& gradient : all) gradient.mul_(coefficient);
  }
  return norm;
}

}  // namespace kernbench::tp
