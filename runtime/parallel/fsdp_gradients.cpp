// Reduces the gradients of a group of parameters.

#include <cmath>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/ops/redistribute.h"
#include "runtime/parallel/fsdp_lanes.h"
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
void ParamGroup::accumulate_gradients(bool reduces) {
  if (reduced_dtype() == gathered_dtype()) return;  // grad() accumulates
  const NoGradGuard no_grad(setting_.torch);
  for (ShardedParameter& parameter : parameters_) {
    if (!parameter.whole.grad().defined()) continue;
    if (!parameter.accumulated.defined()) {
      if (reduces) continue;
      parameter.accumulated = parameter.whole.grad().to(reduced_dtype());
    } else {
      parameter.accumulated.add_(parameter.whole.grad().to(reduced_dtype()));
    }
    parameter.whole.zero_grad();
  }
}

ParamGroup::Division ParamGroup::division() const {
  const int replicas = setting_.replicate_group
                           ? setting_.torch.distributed.get_world_size(*setting_.replicate_group)
                           : 1;
  const double divisor = gradient_divide_factor.value_or(ranks_ * replicas);
  if (reduced_dtype() != DType::f16) return {gradient_divide_factor ? divisor : 1, 1};
  const double half = half_of_divisor(divisor);
  return {half, half / divisor};
}

// Returns the kind's gradients, and notes in `part` whose they are.
std::vector<Tensor> ParamGroup::take_gradients(const Kind& kind, Reduction::Part& part) {
  std::vector<Tensor> gradients;
  for (const std::size_t i : kind.parameters) {
    ShardedParameter& parameter = parameters_[i];
    Tensor gradient = std::exchange(parameter.accumulated, {});
    if (!gradient.defined()) gradient = parameter.whole.grad();
    if (!gradient.defined()) continue;
    parameter.whole.zero_grad();
    gradients.push_back(std::move(gradient));
    part.parameters.push_back(i);
    part.rows.push_back(parameter.rows);
  }
  return gradients;
}

void ParamGroup::reduce() {
  Reduction reduction;
  std::vector<std::vector<Tensor>> gradients;
  for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
    Reduction::Part part;
    part.sent.kind = kind;
    std::vector<Tensor> taken = take_gradients(kinds_[kind], part);
    if (taken.empty()) continue;
    gradients.push_back(std::move(taken));
    reduction.parts.push_back(std::move(part));
  }
  if (gradients.empty()) return;
  if (context_->last_reduced != nullptr) context_->last_reduced->wait_for_reduce_scatter();
  wait_for_post_backward();

  const runtime::NamedPart named(simulation_of(setting_.torch), name_);
  const Division division = this->division();
  reduction.factor = division.factor;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    scatter(reduction.parts[i], std::move(gradients[i]), division.divisor);
  }
  reduction_ = std::move(reduction);
  context_->last_reduced = this;
  if (simulation_of(setting_.torch).queues_launches()) settle();
}

void ParamGroup::scatter(Reduction::Part& part, std::vector<Tensor> gradients, double divisor) {
  const DType dtype = reduced_dtype();
  const std::int64_t count = set_offsets(part.rows);
  Sent& sent = part.sent;
  sent.flat = make_flat(first_of(sent.kind), "reduce_scatter", ranks_, count, dtype, gradients);
  copy_in_gradients(sent.flat, gradients, part.rows, ranks_, 1 / divisor);
  gradients.clear();
  // No collective adds up what the PEs of a single rank have.
  const ops::Placement summed = ops::gradient_placement(ops::placement_of(sent.flat));
  if (ranks_ == 1) part.output = ops::redistributed(sent.flat, summed);
  context_->reduce_scatter.wait_stream(current_stream(setting_.torch));
  if (ranks_ == 1) return;
  part.output = make_flat(first_of(sent.kind), "sharded gradients", 1, count, dtype);
  sent.work = setting_.torch.distributed.reduce_scatter_tensor(
      part.output, sent.flat, reduce_op(), {.group = setting_.shard_group, .async_op = true},
      setting_.location);
  sent.times = note("reduce_scatter", sent);
}

// Work that follows the reduce_scatter is issued at once where that does not block the host, else
// when somebody waits for it.
void ParamGroup::settle() {
  if (!reduction_ || reduction_->has_come) return;
  const NoGradGuard no_grad(setting_.torch);
  const runtime::NamedPart named(simulation_of(setting_.torch), name_);
  const ahbm::StreamContext on_stream(context_->reduce_scatter);
  wait_for_scattered();
  reduction_->has_come = context_->reduce_scatter.record_event();
  if (!setting_.replicate_group) return give_gradients();
  for (Reduction::Part& part : reduction_->parts) {
    Tensor& before = partly_reduced_[part.sent.kind];
    if (before.defined()) part.output.add_(std::exchange(before, {}));
    if (!all_reduce_grads) before = part.output;
  }
  if (all_reduce_grads) return all_reduce();
  has_reduced_ = context_->reduce_scatter.record_event();
}

void ParamGroup::wait_for_scattered() {
  for (const Reduction::Part& part : reduction_->parts) {
    if (part.sent.work) wait_for(setting_.torch, part.sent.work, part.sent.times);
  }
}

void ParamGroup::all_reduce() {
  context_->all_reduce.wait_stream(context_->reduce_scatter);
  const ahbm::StreamContext on_stream(context_->all_reduce);
  for (const Reduction::Part& part : reduction_->parts) {
    setting_.torch.distributed
        .all_reduce(part.output, reduce_op(),
                    {.group = *setting_.replicate_group, .async_op = true}, setting_.location)
        .wait();
  }
  give_gradients();
}

// Gives each shard its part of the outputs, on the current stream.
void ParamGroup::give_gradients() {
  const DType dtype = parameters_.front().shard.dtype();
  for (Reduction::Part& part : reduction_->parts) {
    Tensor output = std::exchange(part.output, {});
    if (reduction_->factor != 1) output.mul_(reduction_->factor);
    if (output.dtype() != dtype) output = output.to(dtype);
    const std::vector<Tensor> gradients = gradients_in(part, output);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      Tensor& shard = parameters_[part.parameters[i]].shard;
      if (shard.grad().defined()) {
        shard.grad().add_(gradients[i]);
      } else {
        autograd::set_grad(shard, gradients[i]);
      }
      autograd::call_after_accumulation(shard);
    }
  }
  has_reduced_ = current_stream(setting_.torch).record_event();
}

// Returns the shards' gradients: parts of the output, unless PEs share them in another way.
std::vector<Tensor> ParamGroup::gradients_in(const Reduction::Part& part,
                                             const Tensor& output) const {
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    const Tensor& shard = parameters_[part.parameters[i]].shard;
    if (is_shared(output)) {
      gradients.push_back(ops::make_like(shard, shard.name(), shard.shape(), output.dtype(),
                                         ops::placement_of(shard)));
    } else {
      const Tensor elements =
          runtime::make_stretch_view(output, 0, part.rows[i].offset, shard.numel());
      gradients.push_back(reshape(elements, shard.shape()));
    }
  }
  if (is_shared(output)) copy_out_gradients(output, gradients, part.rows);
  return gradients;
}

void ParamGroup::backward_has_thrown() {
  pass_ = Pass::idle;
  gathers_anew_ = true;
  forward_indices_.clear();
  for (ShardedParameter& parameter : parameters_) {
    parameter.whole.zero_grad();
    parameter.accumulated = {};
  }
  partly_reduced_.assign(kinds_.size(), {});
  if (!reduction_) return;
  if (!reduction_->has_come) {
    wait_for_scattered();
    reduction_->has_come = current_stream(setting_.torch).record_event();
  }
  wait_for_reduce_scatter();
}

void ParamGroup::wait_for_reduce_scatter() {
  settle();
  reduction_->has_come->wait();
  for (const Reduction::Part& part : reduction_->parts) {
    if (part.sent.work) free_elements(part.sent.flat);
  }
  reduction_.reset();
  context_->last_reduced = nullptr;
}

}  // namespace kernbench::distributed::fsdp
