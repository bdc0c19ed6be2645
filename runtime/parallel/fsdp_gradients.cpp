// Reduces the gradients of a group of parameters.

#include <cmath>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/fsdp_param_group.h"
#include "runtime/parallel/fsdp_streams.h"
#include "runtime/simulation/named_part.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::fsdp {

namespace {

// f16 overflows if sums are divided last, and loses small numbers if they are divided first.  One
// half of the division is therefore done before and one after, as torch does.
double half_of_divisor(double divisor) {
  double half = 1;
  while (std::fmod(divisor, half) == 0 && divisor / half > half) half *= 2;
  return half;
}

}  // namespace

// Gradients of other types than f16 are averaged by the collectives, or divided before.
ReduceOp ParamGroup::reduce_op() const {
  const bool divides = gradient_divide_factor || reduced_dtype() == DType::f16;
  return divides ? ReduceOp::sum : ReduceOp::avg;
}

// Keeps gradients of the parameters' type in the type in which they will be reduced.
void ParamGroup::accumulate_gradients() {
  if (reduced_dtype() == gathered_dtype()) return;  // grad() accumulates
  const NoGradGuard no_grad(setting_.torch);
  for (ShardedParameter& parameter : parameters_) {
    if (!parameter.whole.grad().defined()) continue;
    if (!parameter.accumulated.defined()) {
      if (reduce_grads) continue;
      parameter.accumulated = parameter.whole.grad().to(reduced_dtype());
    } else {
      parameter.accumulated.add_(parameter.whole.grad().to(reduced_dtype()));
    }
    parameter.whole.zero_grad();
  }
}

void ParamGroup::reduce() {
  std::vector<Tensor> gradients;
  Reduction reduction;
  bool cube_is_partial = false;
  bool pe_is_partial = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    ShardedParameter& parameter = parameters_[i];
    Tensor gradient = std::exchange(parameter.accumulated, {});
    if (!gradient.defined()) gradient = parameter.whole.grad();
    if (!gradient.defined()) continue;
    parameter.whole.zero_grad();
    const ops::Placement placement = ops::placement_of(gradient);
    cube_is_partial = cube_is_partial || placement.cube.is_partial();
    pe_is_partial = pe_is_partial || placement.pe.is_partial();
    gradients.push_back(std::move(gradient));
    reduction.parameters.push_back(i);
    reduction.rows.push_back(parameter.rows);
  }
  if (gradients.empty()) return;
  if (context_->last_reduced != nullptr) context_->last_reduced->wait_for_reduce_scatter();
  wait_for_post_backward();

  const runtime::NamedPart named(simulation_of(setting_.torch), name_);
  const DType dtype = reduced_dtype();
  const std::int64_t part = set_offsets(reduction.rows);
  const int replicas = setting_.replicate_group
                           ? setting_.torch.distributed.get_world_size(*setting_.replicate_group)
                           : 1;
  const double divisor = gradient_divide_factor.value_or(ranks_ * replicas);
  const double before = dtype == DType::f16      ? half_of_divisor(divisor)
                        : gradient_divide_factor ? divisor
                                                 : 1;
  reduction.factor = dtype == DType::f16 ? before / divisor : 1;
  reduction.input =
      make_flat("reduce_scatter", ranks_ * part, dtype, cube_is_partial, pe_is_partial);
  copy_in_gradients(reduction.input, gradients, reduction.rows, ranks_, 1 / before);
  gradients.clear();
  context_->reduce_scatter.wait_stream(current_stream(setting_.torch));
  reduction.output = reduction.input;
  if (ranks_ > 1) {
    reduction.output = make_flat("sharded gradients", part, dtype, false, false);
    reduction.work = setting_.torch.distributed.reduce_scatter_tensor(
        reduction.output, reduction.input, reduce_op(),
        {.group = setting_.shard_group, .async_op = true}, setting_.location);
    reduction.times = note("reduce_scatter", reduction.input);
  }
  reduction_ = std::move(reduction);
  context_->last_reduced = this;
  if (simulation_of(setting_.torch).queues_launches()) settle();
}

// Work that follows the reduce_scatter is issued at once where that does not block the host, else
// when somebody waits for it.
void ParamGroup::settle() {
  if (!reduction_ || reduction_->has_come) return;
  const NoGradGuard no_grad(setting_.torch);
  const runtime::NamedPart part(simulation_of(setting_.torch), name_);
  const ahbm::StreamContext on_stream(context_->reduce_scatter);
  if (reduction_->work) wait_for(setting_.torch, reduction_->work, reduction_->times);
  reduction_->has_come = context_->reduce_scatter.record_event();
  if (!setting_.replicate_group) return give_gradients();
  if (partly_reduced_.defined()) reduction_->output.add_(std::exchange(partly_reduced_, {}));
  if (!all_reduce_grads) {
    partly_reduced_ = reduction_->output;
    has_reduced_ = context_->reduce_scatter.record_event();
    return;
  }
  all_reduce();
}

void ParamGroup::all_reduce() {
  context_->all_reduce.wait_stream(context_->reduce_scatter);
  const ahbm::StreamContext on_stream(context_->all_reduce);
  setting_.torch.distributed
      .all_reduce(reduction_->output, reduce_op(),
                  {.group = *setting_.replicate_group, .async_op = true}, setting_.location)
      .wait();
  give_gradients();
}

// Gives each shard its part of the output, on the current stream.
void ParamGroup::give_gradients() {
  Tensor output = std::exchange(reduction_->output, {});
  if (reduction_->factor != 1) output.mul_(reduction_->factor);
  const DType dtype = parameters_.front().shard.dtype();
  if (output.dtype() != dtype) output = output.to(dtype);
  for (std::size_t i = 0; i < reduction_->parameters.size(); ++i) {
    Tensor& shard = parameters_[reduction_->parameters[i]].shard;
    const Tensor part =
        runtime::make_stretch_view(output, 0, reduction_->rows[i].offset, shard.numel());
    const Tensor gradient = reshape(part, shard.shape());
    if (shard.grad().defined()) {
      shard.grad().add_(gradient);
    } else {
      shard.mutable_grad() = gradient;
    }
    autograd::call_after_accumulation(shard);
  }
  has_reduced_ = current_stream(setting_.torch).record_event();
}

void ParamGroup::backward_has_thrown() {
  pass_ = Pass::idle;
  gathers_anew_ = true;
  forward_indices_.clear();
  for (ShardedParameter& parameter : parameters_) {
    parameter.whole.zero_grad();
    parameter.accumulated = {};
  }
  partly_reduced_ = {};
  if (!reduction_) return;
  if (!reduction_->has_come) {
    if (reduction_->work) wait_for(setting_.torch, reduction_->work, reduction_->times);
    reduction_->has_come = current_stream(setting_.torch).record_event();
  }
  wait_for_reduce_scatter();
}

void ParamGroup::wait_for_reduce_scatter() {
  settle();
  reduction_->has_come->wait();
  if (reduction_->work) free_elements(reduction_->input);
  reduction_.reset();
  context_->last_reduced = nullptr;
}

}  // namespace kernbench::distributed::fsdp
