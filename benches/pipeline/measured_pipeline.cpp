#include "benches/pipeline/measured_pipeline.h"

#include <optional>
#include <set>

#include "runtime/functional/functional.h"
#include "runtime/pipelining/schedules.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::pipeline {

namespace {

using namespace distributed::pipelining;

// A stage's blocks as PipelineStage takes them.
struct Blocks {
  train::LanguageModel model;

  const nn::Module* operator->() const { return model.module.get(); }
  Tensor operator()(const Tensor& x) const { return model.forward(x); }
};

std::vector<int> stages_of(const std::vector<Action>& list) {
  std::set<int> stages;
  for (const Action& action : list) stages.insert(action.stage);
  return {stages.begin(), stages.end()};
}

class PipelineRank {
 public:
  PipelineRank(RuntimeContext& torch, const PipelineInput& input, int rank)
      : torch_(torch), rank_(rank), value_(make_value(input)) {
    own_.stages = stages_of(input.lists.at(static_cast<std::size_t>(rank)));
    train::LanguageModelSize part = input.model;
    part.layers = input.model.layers / input.size.stages;
    std::vector<PipelineStage> stages;
    for (const int stage : own_.stages) {
      const Blocks blocks{
          train::make_gpt_blocks(torch, part, {.dtype = input.dtype, .dp = input.on.weights()})};
      stages.emplace_back(torch, blocks, stage, input.size.stages,
                          PipelineStageOptions{.input_args = value_, .output_args = value_});
    }
    schedule_.emplace(
        stages, input.size.microbatches,
        [](const Tensor& y, const Tensor& target) { return nn::functional::mse_loss(y, target); },
        input.lists, ScheduleOptions{.scale_grads = false});  // which takes as long in all
    own_.peak_forwards = schedule_->peaks_of_ranks().at(static_cast<std::size_t>(rank));
    own_.peak_weights = schedule_->peaks_of_weights().at(static_cast<std::size_t>(rank));
    const auto count = static_cast<std::size_t>(input.size.microbatches);
    if (own_.stages.front() == 0) inputs_.assign(count, value_);
    if (own_.stages.back() == input.size.stages - 1) targets_.assign(count, value_);
  }

  void step() {
    const Time before = torch_.engine().activity(rank_).computing;
    const MemoryByKind held = torch_.ahbm.memory_stats().current;
    torch_.ahbm.reset_peak_memory_stats();
    schedule_->step(inputs_, targets_);
    torch_.ahbm.synchronize();
    own_.computing = torch_.engine().activity(rank_).computing - before;
    const MemoryByKind peak = torch_.ahbm.memory_stats().peak;
    own_.peak = peak.sum() - held.sum();
    own_.peak_activations = peak[MemoryKind::activation] - held[MemoryKind::activation];
    own_.peak_gradients = peak[MemoryKind::gradient] - held[MemoryKind::gradient];
    own_.actions = schedule_->last_step();
  }

  const MeasuredRank& measured() const { return own_; }

 private:
  Tensor make_value(const PipelineInput& input) const {
    return torch_.zeros({input.model.tokens(), input.model.hidden},
                        {.dtype = input.dtype, .dp = input.on.tokens()});
  }

  RuntimeContext& torch_;
  const int rank_;
  const Tensor value_;
  std::optional<PipelineScheduleRuntime> schedule_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> targets_;
  MeasuredRank own_;
};

StageTimes mean_times(const MeasuredPipeline& measured, int stages) {
  const auto mean_of = [&](ActionKind kind) {
    Time sum{0};
    int count = 0;
    for (const MeasuredRank& rank : measured.ranks) {
      for (const ActionTime& each : rank.actions) {
        if (each.action.kind != kind || (each.action.stage == 0 && stages > 1)) continue;
        sum += each.duration();
        ++count;
      }
    }
    return count == 0 ? 0 : to_ns(sum) / count;
  };
  return {.forward = mean_of(ActionKind::forward),
          .backward = mean_of(ActionKind::backward),
          .input = mean_of(ActionKind::backward_input),
          .weight = mean_of(ActionKind::backward_weight)};
}

}  // namespace

MeasuredPipeline measure_pipeline(PointContext& point, const PipelineInput& input,
                                  const Topology& topology) {
  MeasuredPipeline measured;
  measured.ranks.resize(static_cast<std::size_t>(input.size.ranks));
  const auto torch = point.make_context(topology, {.ccl = point.bench().ccl(), .data = false});
  torch->distributed.init_process_group("ahbm");
  run_on_devices(*torch, input.size.ranks, [&](int rank) {
    PipelineRank own(*torch, input, rank);
    torch->ahbm.synchronize();
    torch->distributed.barrier();
    measured.begin = torch->engine().now();
    own.step();
    measured.step = torch->engine().now();
    profiler::timed(*torch, "step", measured.begin, measured.step);
    measured.ranks[static_cast<std::size_t>(rank)] = own.measured();
  });
  measured.step -= measured.begin;
  measured.times = mean_times(measured, input.size.stages);
  torch->distributed.destroy_process_group();
  return measured;
}

}  // namespace kernbench::benches::pipeline
