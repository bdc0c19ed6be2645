#include "runtime/parallel/fsdp_param_group.h"

#include <algorithm>
#include <utility>

#include "runtime/autograd/callbacks.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/tensor/memory_space.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::distributed::fsdp {

namespace {

void free_elements(const Tensor& tensor) {
  runtime::free_space(*tensor.storage()->memory);
}

ahbm::Stream current_stream(RuntimeContext& torch) {
  return torch.ahbm.current_stream();
}

// Makes the current stream wait for a collective, and notes its times.  A Work keeps its tensors,
// so it is not kept for them.
void wait_for(RuntimeContext& torch, const Work& work, const std::shared_ptr<Work::Times>& times) {
  work.wait();
  const auto look = [work, times] { *times = work.times(); };
  runtime::Simulation& simulation = torch.simulation();
  if (!simulation.queues_launches()) return look();
  runtime::current_stream(simulation, torch.ahbm.current_device())
      .enqueue("a collective's times", look);
}

// f16 overflows if sums are divided last, and loses small numbers if they are divided first: so
// both halves, as torch does.  Others are averaged by the collectives.
double factor_before(DType dtype, int ranks) {
  if (dtype != DType::f16) return 1;
  int divisor = 1;
  while (ranks % divisor == 0 && ranks / divisor > divisor) divisor *= 2;
  return divisor;
}

ReduceOp reduce_op(DType dtype) {
  return dtype == DType::f16 ? ReduceOp::sum : ReduceOp::avg;
}

}  // namespace

CommContext::CommContext(RuntimeContext& torch)
    : copy_in(torch.ahbm.Stream()),
      reduce_scatter(torch.ahbm.Stream()),
      all_reduce(torch.ahbm.Stream()) {}

void CommContext::free_last_gathered() {
  if (!last_gathered) return;
  gather_after(last_gathered->event);
  free_elements(last_gathered->flat);
  last_gathered.reset();
}

ParamGroup::ParamGroup(const Setting& setting, std::vector<ShardedParameter> parameters)
    : setting_(setting),
      parameters_(std::move(parameters)),
      ranks_(setting.torch.distributed.get_world_size(setting.shard_group)) {
  for (const ShardedParameter& parameter : parameters_) layout_.push_back(parameter.rows);
  part_elements_ = set_offsets(layout_);
  set_names({});
}

void ParamGroup::set_context(std::shared_ptr<CommContext> context) {
  if (context == context_) return;
  leave_context();
  context_ = std::move(context);
}

// Others have indices in forward_order.
void ParamGroup::leave_context() {
  if (context_ == nullptr) return;
  std::ranges::replace(context_->forward_order, this, nullptr);
  forward_indices_.clear();
  if (context_->last_reduced == this) context_->last_reduced = nullptr;
}

DType ParamGroup::gathered_dtype() const {
  return parameters_.front().whole.dtype();
}

DType ParamGroup::reduced_dtype() const {
  return setting_.policy.reduce_dtype.value_or(gathered_dtype());
}

Tensor ParamGroup::make_flat(std::string_view name, std::int64_t count, DType dtype,
                             bool cube_is_partial, bool pe_is_partial) const {
  ops::Placement placement = ops::placement_of(parameters_.front().whole);
  placement.cube = cube_is_partial ? ops::kPartial : ops::kReplicate;
  placement.pe = pe_is_partial ? ops::kPartial : ops::kReplicate;
  return ops::make_like(parameters_.front().whole, name, {count}, dtype, placement);
}

void ParamGroup::set_names(const OrderedDict<Tensor>& parameters) {
  std::vector<std::string> names;
  for (ShardedParameter& parameter : parameters_) {
    for (const auto& item : parameters) {
      if (item.value().storage() == parameter.shard.storage()) parameter.name = item.key();
    }
    names.push_back(parameter.name);
  }
  names_ = std::make_shared<const std::vector<std::string>>(std::move(names));
}

// The current stream has been given what makes the collective ready.
std::shared_ptr<Work::Times> ParamGroup::note(std::string_view collective,
                                              const Tensor& flat) const {
  context_->sent.push_back({names_, std::string(collective), nn::parallel::bytes_of(flat),
                            nn::parallel::device_instant(setting_.torch, flat.device()),
                            std::make_shared<Work::Times>()});
  return context_->sent.back().times;
}

// Gathering

void ParamGroup::unshard() {
  if (gathering_ || is_unsharded_) return;
  const ahbm::StreamContext on_stream(context_->copy_in);
  const Tensor flat =
      make_flat("all_gather", ranks_ * part_elements_, gathered_dtype(), false, false);
  const int rank = setting_.torch.distributed.get_rank(setting_.shard_group);
  const Tensor own = runtime::stretch_of(flat, 0, rank * part_elements_, part_elements_);
  std::vector<Tensor> shards;
  for (const ShardedParameter& parameter : parameters_) shards.push_back(parameter.padded);
  copy_in_shards(own, shards, layout_);
  gathering_ = {flat, {}, nullptr};
  gathered_ = setting_.torch.simulation().last_write();
  if (ranks_ == 1) return;
  gathering_->work = setting_.torch.distributed.all_gather_into_tensor(
      flat, own, {.group = setting_.shard_group, .async_op = true}, setting_.location);
  gathering_->times = note("all_gather", flat);
}

// All parameters get a place, or none.
void ParamGroup::take_space() const {
  std::size_t taken = 0;
  try {
    for (; taken < parameters_.size(); ++taken) {
      runtime::take_space(*parameters_[taken].whole.storage()->memory);
    }
  } catch (...) {
    while (taken > 0) free_elements(parameters_[--taken].whole);
    throw;
  }
}

// As in torch: an all_gather of the forward pass does not wait until the one before it has been
// copied out, only until the one before that has; one of the backward pass waits for both.
void ParamGroup::wait_for_unshard() {
  if (!gathering_) return;
  if (pass_ == Pass::forward) context_->free_last_gathered();
  const auto [flat, work, times] = *std::exchange(gathering_, std::nullopt);
  if (work) wait_for(setting_.torch, work, times);
  const ahbm::Stream stream = current_stream(setting_.torch);
  if (!work) stream.wait_stream(context_->copy_in);
  take_space();
  std::vector<Tensor> wholes;
  std::vector<std::unique_ptr<runtime::PreservedVersion>> versions;
  for (const ShardedParameter& parameter : parameters_) {
    versions.push_back(
        std::make_unique<runtime::PreservedVersion>(*parameter.whole.storage()->memory));
    wholes.push_back(parameter.whole);
  }
  copy_out(flat, wholes, layout_, ranks_);
  is_unsharded_ = true;
  context_->last_gathered = {flat, stream.record_event()};
  if (pass_ != Pass::forward) context_->free_last_gathered();
}

void ParamGroup::reshard() {
  if (pass_ == Pass::forward && !reshard_after_forward) return;
  if (!std::exchange(is_unsharded_, false)) return;
  for (const ShardedParameter& parameter : parameters_) free_elements(parameter.whole);
}

// Passes

// True if shards were written after they had been gathered, such as by load_state_dict().
bool ParamGroup::is_stale() const {
  return is_unsharded_ && std::ranges::any_of(parameters_, [&](const ShardedParameter& parameter) {
           return runtime::is_written_after(*parameter.shard.storage(), gathered_);
         });
}

void ParamGroup::pre_forward() {
  if (is_stale()) reshard();
  pass_ = Pass::forward;
  unshard();
  wait_for_unshard();
}

void ParamGroup::post_forward() {
  reshard();
  pass_ = Pass::idle;
  if (!is_grad_enabled(setting_.torch.simulation())) return;
  forward_indices_.push_back(context_->forward_order.size());
  context_->forward_order.push_back(this);
}

void ParamGroup::pre_backward(bool prefetches) {
  if (pass_ == Pass::pre_backward) return;
  pass_ = Pass::pre_backward;
  unshard();
  wait_for_unshard();
  if (!prefetches || forward_indices_.empty()) return;
  const std::size_t index = forward_indices_.back();
  forward_indices_.pop_back();
  if (index == 0) return;
  if (ParamGroup* const before = context_->forward_order[index - 1]) before->unshard();
}

void ParamGroup::post_backward() {
  pass_ = Pass::post_backward;
  accumulate_gradients();
  if (reshard_after_backward) reshard();
  if (reduce_grads) reduce();
}

void ParamGroup::finalize_backward() {
  settle();
  wait_for_post_backward();
  if (const auto unused = std::exchange(gathering_, std::nullopt)) {
    if (unused->work) {
      wait_for(setting_.torch, unused->work, unused->times);
    } else {
      current_stream(setting_.torch).wait_stream(context_->copy_in);
    }
    free_elements(unused->flat);
  }
  forward_indices_.clear();
  pass_ = Pass::idle;
}

void ParamGroup::wait_for_post_backward() {
  if (has_reduced_) has_reduced_->wait();
  has_reduced_.reset();
}

// Gradients

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

  const DType dtype = reduced_dtype();
  const std::int64_t part = set_offsets(reduction.rows);
  const int replicas = setting_.replicate_group
                           ? setting_.torch.distributed.get_world_size(*setting_.replicate_group)
                           : 1;
  const double before = factor_before(dtype, ranks_ * replicas);
  reduction.factor = dtype == DType::f16 ? before / (ranks_ * replicas) : 1;
  reduction.input =
      make_flat("reduce_scatter", ranks_ * part, dtype, cube_is_partial, pe_is_partial);
  copy_in_gradients(reduction.input, gradients, reduction.rows, ranks_, 1 / before);
  gradients.clear();
  context_->reduce_scatter.wait_stream(current_stream(setting_.torch));
  reduction.output = reduction.input;
  if (ranks_ > 1) {
    reduction.output = make_flat("sharded gradients", part, dtype, false, false);
    reduction.work = setting_.torch.distributed.reduce_scatter_tensor(
        reduction.output, reduction.input, reduce_op(dtype),
        {.group = setting_.shard_group, .async_op = true}, setting_.location);
    reduction.times = note("reduce_scatter", reduction.input);
  }
  reduction_ = std::move(reduction);
  context_->last_reduced = this;
  if (setting_.torch.simulation().queues_launches()) settle();
}

// What follows the reduce_scatter: issued at once where that does not block the host, else when
// somebody waits for it.
void ParamGroup::settle() {
  if (!reduction_ || std::exchange(reduction_->is_settled, true)) return;
  const NoGradGuard no_grad(setting_.torch);
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
      .all_reduce(reduction_->output, reduce_op(reduction_->output.dtype()),
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
    const Tensor part = runtime::stretch_of(output, 0, reduction_->rows[i].offset, shard.numel());
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

void ParamGroup::wait_for_reduce_scatter() {
  settle();
  reduction_->has_come->wait();
  if (reduction_->work) free_elements(reduction_->input);
  reduction_.reset();
  context_->last_reduced = nullptr;
}

}  // namespace kernbench::distributed::fsdp
