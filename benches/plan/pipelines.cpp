#include "benches/plan/pipelines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "benches/ddp/pipeline_step.h"
#include "benches/ddp/step_parts.h"
#include "benches/pipeline/event_program.h"
#include "benches/plan/candidates.h"
#include "runtime/pipelining/action_lists.h"
#include "runtime/pipelining/schedule_check.h"

namespace kernbench::benches::plan {

namespace {

using distributed::pipelining::Action;
using distributed::pipelining::ActionKind;

// The stages in whose place kinds_of_stages() has one.
std::vector<int> kinds_of(int stages) {
  if (stages == 2) return {0, 1};
  return {0, 1, stages - 1};
}

std::size_t kind_of(int stage, int stages) {
  if (stage == 0) return 0;
  return stage == stages - 1 ? kinds_of(stages).size() - 1 : 1;
}

// The most micro-batches that a rank's stages have something of at a time.  The host knows that a
// computation has ended, and its memory is free, at the next message.
int most_under_way(const std::vector<Action>& list) {
  int most = 0;
  int under_way = 0;
  int freed = 0;
  for (const Action& action : list) {
    if (!is_compute(action.kind)) under_way -= std::exchange(freed, 0);
    if (action.kind == ActionKind::forward) most = std::max(most, ++under_way);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) ++freed;
  }
  return most;
}

// A rank with so many micro-batches under way has what its stages hold, their gradients, and a pass
// of the one that takes most, which has one of the micro-batches.  Each stage has two messages
// more, the next input and the next gradient, which it receives meanwhile.
double peak_of(const std::vector<const StepFigures*>& stages, int under_way, double message) {
  double peak = 0;
  double pass = 0;
  double kept = 0;
  for (const StepFigures* const stage : stages) {
    peak += stage->held_bytes + stage->gradient_bytes + 2 * message;
    pass = std::max(pass, stage->pass_bytes);
    kept = std::max(kept, stage->kept_bytes);
  }
  return peak + pass + (under_way - 1) * kept;
}

}  // namespace

std::vector<ddp::StepInput> kinds_of_stages(const ddp::StepInput& input) {
  std::vector<ddp::StepInput> kinds;
  const bool splits = ddp::splits_backward(ddp::list_actions(input));
  for (const int stage : kinds_of(input.stages())) {
    kinds.push_back(ddp::stage_of(input, stage));
    kinds.back().splits_backward = splits;
  }
  return kinds;
}

std::string describe_stage(const ddp::StepInput& stage) {
  ddp::StepInput of = stage;
  of.schedule = nullptr;
  const std::string_view which = stage.parallel.has_embedding ? "first"
                                 : stage.parallel.has_head    ? "last"
                                                              : "middle";
  return fmt::format("{} stage{} of {}", which, stage.splits_backward ? " in halves" : "",
                     describe(of));
}

std::string describe_messages(const ddp::StepInput& input) {
  return fmt::format("messages of tp {} x dp {} x pp {}{}, {} samples", input.tp, input.dp(),
                     input.pp, ddp::sends_round(input) ? " round" : "", input.microbatch().batch);
}

StepFigures compose(const ddp::StepInput& input, const std::vector<StepFigures>& kinds,
                    const pipeline::MessageTimes& message) {
  namespace pipelining = distributed::pipelining;
  const pipelining::ActionLists lists = pipelining::add_messages(ddp::list_actions(input));
  const auto checked = pipelining::check_schedule(lists, input.microbatches);
  std::vector<pipeline::CostsOfStage> costs;
  std::vector<std::vector<const StepFigures*>> ranks(lists.size());
  StepFigures step;
  for (int stage = 0; stage < input.stages(); ++stage) {
    const StepFigures& figures = kinds.at(kind_of(stage, input.stages()));
    costs.push_back(figures.costs);
    const int rank = checked.rank_of_stage.at(static_cast<std::size_t>(stage));
    ranks.at(static_cast<std::size_t>(rank)).push_back(&figures);
    step.flops += figures.flops / input.pp;
    // Stages have two steps of one pass and two of three; the pipeline has three of all.
    step.events += 3 * figures.events * input.microbatches / (input.microbatches + 5);
  }
  const bool needs_norm = input.scheme == ddp::Scheme::zero1;
  const pipeline::ProgramTimes program =
      pipeline::run_program(lists, costs, message, input.dp(), needs_norm);
  step.step_ns = to_ns(program.step);
  step.bubble_ns = to_ns(program.bubble);
  const auto message_bytes = static_cast<double>(ddp::bytes_between(input));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    step.peak_bytes =
        std::max(step.peak_bytes, peak_of(ranks[rank], most_under_way(lists[rank]), message_bytes));
  }
  for (const StepFigures* const stage : ranks.front()) {
    step.computing_ns += stage->computing_ns;
    step.exposed_ns += stage->exposed_ns;
    step.tp_exposed_ns += stage->tp_exposed_ns;
    step.dp_exposed_ns += stage->dp_exposed_ns;
  }
  step.idle_ns = step.step_ns - step.computing_ns - step.exposed_ns;
  return step;
}

}  // namespace kernbench::benches::plan
