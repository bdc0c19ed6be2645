#include "runtime/optim/float16_optimizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/functional/operators.h"
#include "runtime/nn/module.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/optim/fused_update.h"
#include "runtime/optim/update_rules.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::optim {

namespace {

constexpr std::string_view kMasters = "fp32_from_fp16_params.";
constexpr std::string_view kScaler = "grad_scaler.";

tl::Tensor same(tl::Context&, const tl::Tensor& source, double) {
  return source;
}

Tensor make_master(const Tensor& parameter) {
  const Tensor master = ops::make_like(parameter, parameter.name() + ".main", parameter.shape(),
                                       DType::f32, ops::placement_of(parameter));
  runtime::mark_memory_beside(master, parameter, MemoryKind::optimizer_state);
  return Tensor(master).requires_grad_();
}

}  // namespace

Float16OptimizerWithFloat16Params::Float16OptimizerWithFloat16Params(
    RuntimeContext& torch, std::unique_ptr<Optimizer> optimizer, Float16OptimizerOptions options)
    : torch_(torch),
      optimizer_(std::move(optimizer)),
      options_(std::move(options)),
      model_(optimizer_->parameters()),
      main_(model_) {
  if (options_.grad_scaler) scaler_ = std::make_unique<DynamicGradScaler>(*options_.grad_scaler);
  for (std::size_t i = 0; i < model_.size(); ++i) {
    if (model_[i].dtype() == DType::f32) continue;
    main_[i] = make_master(model_[i]);
    optimizer_->replace_parameter(model_[i], main_[i]);
  }
  reload_model_params();
}

Float16OptimizerWithFloat16Params::~Float16OptimizerWithFloat16Params() = default;

void Float16OptimizerWithFloat16Params::replace_parameter(const Tensor& parameter,
                                                          const Tensor& by) {
  optimizer_->replace_parameter(parameter, by);
  std::ranges::replace_if(
      main_, [&](const Tensor& own) { return own.storage() == parameter.storage(); }, by);
}

double Float16OptimizerWithFloat16Params::get_loss_scale() const {
  return scaler_ ? scaler_->scale() : 1;
}

Tensor Float16OptimizerWithFloat16Params::scale_loss(const Tensor& loss) const {
  return scaler_ ? loss * scaler_->scale() : loss;
}

void Float16OptimizerWithFloat16Params::copy(const std::vector<Tensor>& from,
                                             const std::vector<Tensor>& to) {
  std::vector<Assignment> copies;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (has_master(i)) copies.push_back({to[i], from[i]});
  }
  assign("copy_params", std::move(copies), same);
}

void Float16OptimizerWithFloat16Params::reload_model_params() {
  copy(model_, main_);
}

// Returns the gradients of the masters, unscaled.
std::vector<Tensor> Float16OptimizerWithFloat16Params::copy_model_grads_to_main_grads() {
  const double factor = scaler_ ? scaler_->inv_scale() : 1;
  std::vector<Assignment> copies;
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < model_.size(); ++i) {
    const Tensor from = model_[i].grad();
    if (!from.defined()) continue;
    if (has_master(i)) {
      const Tensor grad = ops::make_like(from, main_[i].name() + ".grad", from.shape(), DType::f32,
                                         ops::placement_of(from));
      autograd::set_grad(main_[i], grad);
      copies.push_back({grad, from, factor});
      Tensor(model_[i]).zero_grad();
    } else if (factor != 1) {
      copies.push_back({from, from, factor});
    }
    gradients.push_back(main_[i].grad());
  }
  assign("copy_model_grads_to_main_grads", std::move(copies),
         [](tl::Context&, const tl::Tensor& g, double number) { return g * number; });
  return gradients;
}

// Returns the sum or the maximum of the ranks' numbers.
double Float16OptimizerWithFloat16Params::over_ranks(double value, ReduceOp op) const {
  if (!options_.grad_stats_parallel_group) return value;
  const runtime::MadeAs buffers(simulation_of(torch_), MemoryKind::communication);
  const Tensor all =
      torch_.full({1}, value, {.dp = DPPolicy::on_one_pe(), .name = "gradients of ranks"});
  torch_.distributed.all_reduce(all, op, {.group = *options_.grad_stats_parallel_group});
  return torch_.options().data ? all.item<double>() : value;
}

bool Float16OptimizerWithFloat16Params::found_inf(const std::vector<Tensor>& gradients) const {
  return over_ranks(has_nonfinite(gradients) ? 1 : 0, ReduceOp::max) > 0;
}

// Megatron's: the square of the ranks' norm is the sum of theirs, and gradients are scaled only if
// it is too large.
double Float16OptimizerWithFloat16Params::clip(const std::vector<Tensor>& gradients) const {
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < main_.size(); ++i) {
    const bool counts = !options_.counts_in_norm || options_.counts_in_norm(model_[i]);
    if (counts && main_[i].grad().defined()) counted.push_back(main_[i].grad());
  }
  const std::vector<double> squares =
      sums("clip_grad_norm", counted, [](const tl::Tensor& g) { return g * g; });
  const double own = std::accumulate(squares.begin(), squares.end(), 0.0);
  const double norm = std::sqrt(over_ranks(own, ReduceOp::sum));
  const double coefficient = options_.clip_grad / (norm + 1e-6);
  if (coefficient < 1) scale_gradients(gradients, coefficient);
  return norm;
}

void Float16OptimizerWithFloat16Params::step() {
  const NoGradGuard no_grad(torch_);
  last_ = {};
  const std::vector<Tensor> gradients = copy_model_grads_to_main_grads();
  if (scaler_) {
    const bool skips = found_inf(gradients);
    scaler_->update(skips);
    if (skips) return;
  }
  if (options_.clip_grad > 0) last_.grad_norm = clip(gradients);
  optimizer_->step();
  copy(main_, model_);
  last_.success = true;
}

void Float16OptimizerWithFloat16Params::zero_grad(bool set_to_none) {
  nn::zero_grad(model_, set_to_none);
  optimizer_->zero_grad(set_to_none);
}

nn::State Float16OptimizerWithFloat16Params::state_dict() const {
  nn::State state = optimizer_->state_dict();
  for (std::size_t i = 0; i < main_.size(); ++i) {
    if (has_master(i)) state.tensors.insert(fmt::format("{}{}", kMasters, i), main_[i]);
  }
  if (!scaler_) return state;
  for (const auto& item : scaler_->state_dict().numbers) {
    state.numbers.insert(std::string(kScaler) + item.key(), item.value());
  }
  return state;
}

void Float16OptimizerWithFloat16Params::load_state_dict(const nn::State& state) {
  for (std::size_t i = 0; i < main_.size(); ++i) {
    if (!has_master(i)) continue;
    const std::string name = fmt::format("{}{}", kMasters, i);
    const Tensor* const master = state.tensors.find(name);
    if (master != nullptr && master->shape() == main_[i].shape()) continue;
    refuse(fmt::format("KeyError: '{}': the state has no such master in f32 of shape {}", name,
                       to_string(main_[i].shape())));
  }
  optimizer_->load_state_dict(state);
  const NoGradGuard no_grad(torch_);
  for (std::size_t i = 0; i < main_.size(); ++i) {
    if (has_master(i)) main_[i].copy_(state.tensors[fmt::format("{}{}", kMasters, i)]);
  }
  copy(main_, model_);
  if (!scaler_) return;
  nn::State own;
  for (const auto& item : state.numbers) {
    if (!item.key().starts_with(kScaler)) continue;
    own.numbers.insert(item.key().substr(kScaler.size()), item.value());
  }
  scaler_->load_state_dict(own);
}

}  // namespace kernbench::optim
