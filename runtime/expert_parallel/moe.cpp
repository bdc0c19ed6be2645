#include "runtime/expert_parallel/moe.h"

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <string_view>

#include "runtime/expert_parallel/checks.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/grouped_mm.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

namespace {

// Uniform within 1 / sqrt(in), as Linear's.
Tensor make_weight(const RuntimeContext& torch, std::int64_t out, std::int64_t in,
                   const TensorOptions& tensors) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return torch.empty({out, in}, tensors).uniform_(-bound, bound);
}

constexpr std::string_view kMoE = "MoE";

}  // namespace

ExpertImpl::ExpertImpl(const RuntimeContext& torch, const moe::MoEOptions& options,
                       std::int64_t hidden_dim, const TensorOptions& tensors)
    : w1(register_parameter("w1", make_weight(torch, hidden_dim, options.dim, tensors))),
      w2(register_parameter("w2", make_weight(torch, options.dim, hidden_dim, tensors))) {
  if (!options.is_gated) return;
  w3 = register_parameter("w3", make_weight(torch, hidden_dim, options.dim, tensors));
}

Tensor ExpertImpl::forward(const Tensor& x) const {
  const Tensor up = functional::linear(x, w1);
  if (!w3.defined()) return functional::linear(up.relu(), w2);
  return functional::linear(silu(up) * functional::linear(x, w3), w2);
}

MoEImpl::MoEImpl(const RuntimeContext& torch, const moe::MoEOptions& options,
                 const TensorOptions& tensors)
    : torch_(torch),
      options_(options),
      ranks_(moe::check_experts(kMoE, torch, options.dispatch.group, options.num_experts)),
      rank_(torch.distributed.get_rank(options.dispatch.group)),
      router_(register_module(
          "router",
          Linear(torch, LinearOptions(options.dim, options.num_experts).bias(false), tensors))) {
  moe::check_top_k(kMoE, options.router.top_k, options.num_experts);
  const auto experts = register_module("experts", std::make_shared<Module>());
  const std::int64_t on_rank = options.num_experts / ranks_;
  for (std::int64_t e = rank_ * on_rank; e < (rank_ + 1) * on_rank; ++e) {
    experts_.push_back(experts->register_module(
        fmt::format("{}", e), Expert(torch, options, options.hidden_dim, tensors)));
  }
  if (options.num_shared_experts == 0) return;
  shared_ = register_module(
      "shared_experts",
      Expert(torch, options, options.num_shared_experts * options.hidden_dim, tensors));
}

moe::LoadShape MoEImpl::shape_of_load(std::int64_t tokens) const {
  const std::int64_t of_load = options_.load_tokens > 0 ? options_.load_tokens : tokens;
  return {ranks_,  options_.num_experts, options_.router.top_k,
          of_load, options_.seed,        options_.step};
}

moe::Dispatched MoEImpl::dispatch(const Tensor& x) {
  const moe::Routed routed = moe::route(router_(x), options_.router);
  moe::DispatchOptions how = options_.dispatch;
  const bool lacks_values = !torch_.options().data;
  if (options_.load || (lacks_values && !how.experts)) {
    const moe::RoutingLoad load = options_.load ? *options_.load : moe::RoutingLoad::parse("W0");
    how.experts = load.experts(shape_of_load(x.size(0)), rank_);
  }
  moe::Dispatched sent =
      moe::dispatch(x, routed.topk_idx, routed.topk_weights, options_.num_experts, how);
  last_ = moe::sizes_of(sent.handle);
  return sent;
}

Tensor MoEImpl::compute_experts(const moe::Dispatched& sent) const {
  const auto multiply = [&](const Tensor& x, Tensor ExpertImpl::*weight) {
    std::vector<Tensor> weights;
    for (const Expert& expert : experts_) weights.push_back((*expert).*weight);
    return functional::grouped_mm(x, sent.num_recv_tokens_per_expert_list, weights);
  };
  const Tensor up = multiply(sent.recv_x, &ExpertImpl::w1);
  if (!options_.is_gated) return multiply(up.relu(), &ExpertImpl::w2);
  const Tensor gates = silu(up);  // first: operands of * have no order
  return multiply(gates * multiply(sent.recv_x, &ExpertImpl::w3), &ExpertImpl::w2);
}

Tensor MoEImpl::compute_shared(const Tensor& x) const {
  return shared_ ? shared_(x) : Tensor();
}

Tensor MoEImpl::forward(const Tensor& of) {
  runtime::check_on_device(of, kMoE);
  const Tensor x = of.dim() == 2 ? of : reshape(contiguous(of), {-1, of.size(-1)});
  const moe::Dispatched sent = dispatch(x);
  const Tensor shared = compute_shared(x);
  const Tensor y = moe::combine(compute_experts(sent), sent.handle);
  const Tensor sum = shared.defined() ? y + shared : y;
  return of.dim() == 2 ? sum : reshape(sum, of.shape());
}

moe::ExchangeSizes MoEImpl::last_sizes() const {
  if (last_) return *last_;
  throw CollectiveError("KB-C029", "last_sizes: this MoE has sent nothing: call it first");
}

}  // namespace kernbench::nn
