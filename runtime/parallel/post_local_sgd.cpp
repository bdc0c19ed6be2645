// Post-local SGD and model averaging, as torch 1.13's
// distributed/algorithms/ddp_comm_hooks/post_localSGD_hook.py and model_averaging.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <utility>

#include "runtime/ops/placement.h"
#include "runtime/parallel/bucket_assignment.h"
#include "runtime/parallel/comm_hook.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::parallel {

Future post_localSGD_hook(const std::shared_ptr<PostLocalSGDState>& state, GradBucket& bucket) {
  if (state->iter < state->start_localSGD_iter) {
    if (bucket.is_last()) ++state->iter;
    return allreduce_hook(state->process_group, bucket);
  }
  if (!state->post_local_gradient_allreduce) return Future(bucket.buffer());
  return allreduce_hook(state->subgroup, bucket);
}

PeriodicModelAverager::PeriodicModelAverager(std::int64_t its_period, std::int64_t its_warmup_steps,
                                             distributed::ProcessGroup group)
    : period(its_period), warmup_steps(its_warmup_steps), process_group(std::move(group)) {
  if (warmup_steps < 0) {
    throw CollectiveError("KB-A015", "Arg ``warmup_steps`` must be a non-negative number. (not {})",
                          warmup_steps);
  }
  if (period < 1) {
    throw CollectiveError("KB-A015", "Arg ``period`` must be a positive value. (not {})", period);
  }
  if (period > 1) return;
  fmt::print(stderr,
             "kernbench: warning: When period is 1, no need to use model averaging because the "
             "communication cost of all-reducing parameters will be no less than the cost of "
             "all-reducing gradients by DistributedDataParallel in the backward pass. Therefore, "
             "only DistributedDataParallel should be used for this case.\n");
}

void PeriodicModelAverager::average_parameters(const std::vector<Tensor>& parameters) {
  const std::int64_t now = step++;
  if (now < warmup_steps || (now - warmup_steps) % period != 0) return;
  std::vector<Tensor> trained;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) trained.push_back(parameter);
  }
  if (trained.empty()) return;
  RuntimeContext& torch = runtime::context_of(*trained.front().storage()->simulation);
  if (torch.distributed.get_rank(process_group) < 0) return;
  constexpr std::array kNoLimit{std::numeric_limits<Bytes>::max()};
  for (const BucketParameters& kind : bucket_assignment(bucket_items(trained), kNoLimit)) {
    std::vector<Tensor> together;
    for (const std::size_t number : kind) together.push_back(trained[number]);
    const FlatBuffer buffer(together, together.front().dtype());
    buffer.pack(together);
    buffer.tensor().div_(torch.distributed.get_world_size(process_group));
    torch.distributed.all_reduce(buffer.tensor(), {.group = process_group});
    buffer.unpack(together);
  }
}

void warn_of_lost_averager_step() {
  fmt::print(stderr,
             "kernbench: warning: Loaded state dict does not contain a step counter for an "
             "averager. Setting step counter to 0.\n");
}

void OptimizerHookState::step(const GradBucket& bucket) {
  const std::vector<Tensor> gradients = bucket.gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Tensor& parameter = bucket.parameters()[i];
    const auto same = [&](const Tensor& other) { return other.storage() == parameter.storage(); };
    if (!params_to_optimize_.empty() && std::ranges::none_of(params_to_optimize_, same)) continue;
    if (!gradients[i].defined()) {
      ops::refuse_placement("_hook_then_optimizer", bucket.buffer(),
                            "it updates from buckets that lie whole on each of their holders");
    }
    step_param(parameter, gradients[i].to(parameter.dtype()));
  }
}

// Each parameter has an optimizer of its own, since parameters change buckets after the first pass.
void OptimizerHookState::step_param(Tensor parameter, const Tensor& gradient) {
  std::function<void()>& step_of = steps_[parameter.storage().get()];
  if (step_of == nullptr) step_of = make_({parameter});
  const Tensor before = std::exchange(parameter.mutable_grad(), gradient);
  step_of();
  parameter.mutable_grad() = before;
}

}  // namespace kernbench::nn::parallel
