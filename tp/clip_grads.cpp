#include "tp/clip_grads.h"

#include <cmath>

#include "runtime/autograd/grad_mode.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/reductions.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

double get_grad_norm(RuntimeContext& torch, const std::vector<Tensor>& counted, const Tensor& any,
                     const distributed::ProcessGroup& group) {
  const NoGradGuard no_grad(torch);
  Tensor total;
  for (const Tensor& gradient : counted) {
    const Tensor squares = gradient.to(DType::f32).square().sum();
    total = total.defined() ? total + squares : squares;
  }
  if (counted.empty()) {
    total = any.to(DType::f32).sum();
    total.zero_();
  }
  torch.distributed.all_reduce(total, {.group = group});
  return torch.options().data ? std::sqrt(total.item<double>()) : 0;
}

double clip_grad_norm(RuntimeContext& torch, const std::vector<Parameter>& parameters,
                      double max_norm) {
  std::vector<Tensor> all;
  std::vector<Tensor> counted;
  for (const Parameter& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    all.push_back(parameter.grad().detach());
    if (counts_in_norms(torch, parameter)) counted.push_back(all.back());
  }
  if (all.empty()) wrong_layer("clip_grad_norm: no parameter of this rank has a gradient");
  const double norm = get_grad_norm(torch, counted, all.front(), get_model_parallel_group(torch));
  const double coefficient = max_norm / (norm + 1e-6);
  if (coefficient < 1) {
    for (Tensor& gradient : all) gradient.mul_(coefficient);
  }
  return norm;
}

}  // namespace kernbench::tp
