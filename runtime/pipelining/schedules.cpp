#include "runtime/pipelining/schedules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/distributed/distributed.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/pipelining/schedule_check.h"
#include "runtime/pipelining/stage_state.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::distributed::pipelining {

namespace {

std::vector<int> indices_of(const std::vector<PipelineStage>& stages) {
  std::vector<int> indices;
  for (const PipelineStage& stage : stages) indices.push_back(stage.stage_index());
  std::ranges::sort(indices);
  return indices;
}

const StageState& first_of(const std::vector<PipelineStage>& stages) {
  if (stages.empty()) throw CollectiveError("KB-C024", "a schedule needs a stage on each rank");
  return *stages.front().state();
}

}  // namespace

PipelineSize PipelineSchedule::size_of(const std::vector<PipelineStage>& stages,
                                       int n_microbatches) {
  const StageState& first = first_of(stages);
  return {.stages = first.count,
          .ranks = first.torch.distributed.get_world_size(first.options.group),
          .microbatches = n_microbatches};
}

PipelineSchedule::PipelineSchedule(const std::vector<PipelineStage>& stages, int n_microbatches,
                                   LossFunction loss_fn, ActionLists lists,
                                   const ScheduleOptions& options)
    : stages_(stages),
      n_microbatches_(n_microbatches),
      loss_fn_(std::move(loss_fn)),
      lists_(std::move(lists)),
      options_(options) {
  const StageState& first = first_of(stages);
  rank_ = first.torch.distributed.get_rank(first.options.group);
  CheckedSchedule checked = check_schedule(lists_, n_microbatches);
  const PipelineSize size = size_of(stages, n_microbatches);
  if (checked.stages != size.stages || std::ssize(lists_) != size.ranks) {
    throw CollectiveError("KB-C024",
                          "the schedule has {} stages on {} ranks, but there are {} on {}",
                          checked.stages, lists_.size(), size.stages, size.ranks);
  }
  rank_of_stage_ = std::move(checked.rank_of_stage);
  peaks_ = std::move(checked.peaks);
  peaks_of_ranks_ = std::move(checked.peaks_of_ranks);
  peaks_of_weights_ = std::move(checked.peaks_of_weights);
  std::vector<int> wanted;
  for (int stage = 0; stage < size.stages; ++stage) {
    if (rank_of(stage) == rank_) wanted.push_back(stage);
  }
  if (wanted == indices_of(stages)) return;
  throw CollectiveError("KB-C024", "rank {} has stages [{}], but in the schedule it has [{}]",
                        rank_, fmt::join(indices_of(stages), ", "), fmt::join(wanted, ", "));
}

StageState* PipelineSchedule::own_stage(int index) const {
  for (const PipelineStage& stage : stages_) {
    if (stage.stage_index() == index) return stage.state().get();
  }
  return nullptr;
}

std::vector<Tensor> PipelineSchedule::cut(const Tensor& batch, std::string_view name) const {
  if (!batch.defined()) {
    throw CollectiveError("KB-C024", "step: rank {} gives no {}", rank_, name);
  }
  if (batch.dim() == 0 || batch.size(0) == 0 || batch.size(0) % n_microbatches_ != 0) {
    throw CollectiveError("KB-C024",
                          "step: the {} of shape {} is not divisible into {} micro-batches", name,
                          to_string(batch.shape()), n_microbatches_);
  }
  return chunk(batch, n_microbatches_);
}

// Each stage learns from the one before what it receives, in the order of the stages.
void PipelineSchedule::initialize_stages() {
  if (std::exchange(is_initialized_, true)) return;
  for (int i = 0; i < first_of(stages_).count; ++i) initialize_stage(i);
}

void PipelineSchedule::initialize_stage(int index) {
  StageState* const stage = own_stage(index);
  if (stage == nullptr) return;
  if (!stage->is_first()) {
    StageState* const before = own_stage(index - 1);
    stage->accept_input(before != nullptr ? before->output_kind.value()
                                          : stage->receive_kind(rank_of(index - 1)));
  }
  if (stage->is_last()) return;
  stage->find_output_kind();
  if (rank_of(index + 1) != rank_) stage->send_kind(rank_of(index + 1));
}

void PipelineSchedule::check_count(const std::vector<Tensor>& given, std::string_view name) const {
  if (std::ssize(given) == n_microbatches_) return;
  throw CollectiveError("KB-C024", "Expecting {} {} but got {}", n_microbatches_, name,
                        given.size());
}

void PipelineSchedule::set_microbatches(const std::vector<Tensor>& inputs,
                                        const std::vector<Tensor>& targets) {
  for (const PipelineStage& stage : stages_) {
    StageState& state = *stage.state();
    const bool takes_targets = state.is_last() && loss_fn_;
    if (state.is_first()) check_count(inputs, "arg_mbs");
    if (takes_targets) check_count(targets, "target_mbs");
    state.begin_step(n_microbatches_, loss_fn_ != nullptr);
    state.has_reduce_action = std::ranges::any_of(own_list(), [&](const Action& action) {
      return action.kind == ActionKind::reduce_grad && action.stage == state.index;
    });
    for (std::size_t i = 0; i < state.microbatches.size(); ++i) {
      if (state.is_first()) state.microbatches[i].input = inputs[i];
      if (takes_targets) state.microbatches[i].target = targets[i];
    }
  }
}

void PipelineSchedule::step(const Tensor& x, const StepOptions& options) {
  std::vector<Tensor> inputs;
  std::vector<Tensor> targets;
  if (own_stage(0) != nullptr) inputs = cut(x, "input");
  const bool has_last = own_stage(first_of(stages_).count - 1) != nullptr;
  if (has_last && loss_fn_) targets = cut(options.target, "target");
  step(inputs, targets, options);
}

void PipelineSchedule::step(const std::vector<Tensor>& inputs, const std::vector<Tensor>& targets,
                            const StepOptions& options) {
  set_microbatches(inputs, targets);
  initialize_stages();
  times_.begin_step();
  for (const PipelineStage& each : stages_) {
    each.state()->keeps_outputs = each.is_last() && options.outputs != nullptr;
  }
  try {
    for (const Action& action : own_list()) {
      if (loss_fn_ || !is_of_backward(action.kind)) run(action);
    }
  } catch (const std::exception&) {
    for (const PipelineStage& each : stages_) each.state()->abandon_step();
    throw;
  }
  for (const PipelineStage& each : stages_) {
    StageState& stage = *each.state();
    for (const Work& send : std::exchange(stage.sends, {})) send.wait();
    if (loss_fn_ && options_.scale_grads) stage.scale_gradients(n_microbatches_);
    if (stage.is_last()) stage.give_results(options.losses, options.outputs);
    stage.microbatches.clear();
  }
}

void PipelineSchedule::run(const Action& action) {
  StageState& stage = *own_stage(action.stage);
  if (!is_compute(action.kind)) return communicate(stage, action);
  stage.await_values(action);
  times_.begin(stage.torch, action);
  compute(stage, action);
  times_.end(stage.torch);
}

void PipelineSchedule::compute(StageState& stage, const Action& action) {
  StageMicrobatch& own = stage.at(action.microbatch);
  switch (action.kind) {
    case ActionKind::forward:
      stage.run_forward(action.microbatch, loss_fn_);
      if (StageState* const next = own_stage(action.stage + 1)) {
        next->at(action.microbatch).input = own.output.detach();
      }
      break;
    case ActionKind::backward:
    case ActionKind::backward_input:
      action.kind == ActionKind::backward ? stage.run_backward(action.microbatch)
                                          : stage.run_backward_input(action.microbatch);
      if (StageState* const previous = own_stage(action.stage - 1)) {
        previous->at(action.microbatch).output_gradient = std::move(own.input_gradient);
      }
      break;
    case ActionKind::backward_weight:
      stage.run_backward_weight(action.microbatch);
      break;
    default:
      break;
  }
}

void PipelineSchedule::communicate(StageState& stage, const Action& action) {
  StageMicrobatch& own = stage.at(action.microbatch);
  switch (action.kind) {
    case ActionKind::send_forward:
      stage.begin_send(own.output, action, rank_of(action.stage + 1));
      if (!loss_fn_) own = {};  // no backward will need it
      break;
    case ActionKind::send_backward:
      stage.begin_send(std::exchange(own.input_gradient, {}), action, rank_of(action.stage - 1));
      break;
    case ActionKind::receive_forward:
      stage.begin_receive(action, rank_of(action.stage - 1));
      break;
    case ActionKind::receive_backward:
      stage.begin_receive(action, rank_of(action.stage + 1));
      break;
    default:
      stage.run_for_shards(action.kind);
      break;
  }
}

PipelineScheduleRuntime::PipelineScheduleRuntime(const std::vector<PipelineStage>& stages,
                                                 int n_microbatches, LossFunction loss_fn,
                                                 const ActionLists& lists,
                                                 const ScheduleOptions& options)
    : PipelineSchedule(stages, n_microbatches, std::move(loss_fn),
                       has_messages(lists) ? lists : add_messages(lists), options) {}

}  // namespace kernbench::distributed::pipelining
