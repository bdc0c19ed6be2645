#include "benches/plan/step_figures.h"

#include <array>
#include <string_view>

#include "benches/bench/bench_run.h"
#include "benches/bench/row_cells.h"
#include "sim_engine/base/check.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::plan {

namespace {

struct Figure {
  std::string_view column;
  double StepFigures::*value;
};

constexpr std::array kFigures = {
    Figure{"step_ns", &StepFigures::step_ns},
    Figure{"computing_ns", &StepFigures::computing_ns},
    Figure{"exposed_ns", &StepFigures::exposed_ns},
    Figure{"idle_ns", &StepFigures::idle_ns},
    Figure{"tp_exposed_ns", &StepFigures::tp_exposed_ns},
    Figure{"dp_exposed_ns", &StepFigures::dp_exposed_ns},
    Figure{"bubble_ns", &StepFigures::bubble_ns},
    Figure{"peak_bytes", &StepFigures::peak_bytes},
    Figure{"flops", &StepFigures::flops},
    Figure{"events", &StepFigures::events},
    Figure{"launch_tail_ns", &StepFigures::launch_tail_ns},
    Figure{"tail_ns", &StepFigures::tail_ns},
    Figure{"held_bytes", &StepFigures::held_bytes},
    Figure{"gradient_bytes", &StepFigures::gradient_bytes},
    Figure{"pass_bytes", &StepFigures::pass_bytes},
    Figure{"kept_bytes", &StepFigures::kept_bytes},
};

struct TimeOfStage {
  std::string_view column;
  pipeline::StageTimes pipeline::TimesOfStage::*pass;
  double pipeline::StageTimes::*value;
};

using Times = pipeline::TimesOfStage;
using Stage = pipeline::StageTimes;

constexpr std::array kTimesOfStage = {
    TimeOfStage{"first_backward_ns", &Times::first, &Stage::backward},
    TimeOfStage{"first_weight_ns", &Times::first, &Stage::weight},
    TimeOfStage{"forward_ns", &Times::later, &Stage::forward},
    TimeOfStage{"backward_ns", &Times::later, &Stage::backward},
    TimeOfStage{"last_backward_ns", &Times::last, &Stage::backward},
    TimeOfStage{"last_weight_ns", &Times::last, &Stage::weight},
    TimeOfStage{"input_ns", &Times::later, &Stage::input},
    TimeOfStage{"weight_ns", &Times::later, &Stage::weight},
    TimeOfStage{"first_forward_ns", &Times::first, &Stage::forward},
    TimeOfStage{"last_forward_ns", &Times::last, &Stage::forward},
    TimeOfStage{"first_input_ns", &Times::first, &Stage::input},
    TimeOfStage{"last_input_ns", &Times::last, &Stage::input},
    TimeOfStage{"launch_forward_ns", &Times::host, &Stage::forward},
    TimeOfStage{"launch_backward_ns", &Times::host, &Stage::backward},
    TimeOfStage{"launch_input_ns", &Times::host, &Stage::input},
    TimeOfStage{"launch_weight_ns", &Times::host, &Stage::weight},
};

// Calls visit(column, at) for each figure, which at(figures) refers to.
template <class Visit>
void for_each_figure(const Visit& visit) {
  for (const auto& [column, value] : kFigures) {
    visit(
        column, [value = value](auto& of) -> auto& { return of.*value; });
  }
  for (const auto& [column, pass, value] : kTimesOfStage) {
    visit(
        column,
        [ pass = pass, value = value ](auto& of) -> auto& { return of.times.*pass.*value; });
  }
}

double count_events(const PointContext& point) {
  double events = 0;
  for (const EngineStatistics& system : point.contexts().statistics()) {
    events += static_cast<double>(system.events);
  }
  return events;
}

ddp::MeasuredStep run(PointContext& point, const ddp::StepInput& input) {
  ddp::MeasuredStep measured =
      ddp::measure_step(point, input, with_sips(point.bench().topology(), input.world));
  point.check(measured.keeps(measured.time, measured.bound));
  return measured;
}

StepFigures figures_of(const nn::parallel::StepTimes& step) {
  return {.step_ns = to_ns(step.end - step.begin),
          .computing_ns = to_ns(step.compute_only + step.both),
          .exposed_ns = to_ns(step.exposed),
          .idle_ns = to_ns(step.idle)};
}

StepFigures figures_of(PointContext& point, const ddp::StepInput& input,
                       const ddp::MeasuredStep& measured) {
  StepFigures figures = figures_of(measured.later);
  figures.tp_exposed_ns = to_ns(measured.mesh.tp.exposed);
  figures.dp_exposed_ns = to_ns(input.is_mesh ? measured.mesh.dp.exposed : measured.later.exposed);
  figures.peak_bytes = static_cast<double>(measured.peak);
  figures.flops = measured.flops;
  figures.events = count_events(point);
  figures.bubble_ns = to_ns(measured.bubble);
  const ddp::StageStep& stage = measured.stage;
  figures.times = stage.times;
  figures.tail_ns = to_ns(stage.tail);
  figures.launch_tail_ns = to_ns(stage.tail_launch);
  figures.held_bytes = static_cast<double>(stage.held);
  figures.gradient_bytes = static_cast<double>(stage.gradients);
  figures.pass_bytes = static_cast<double>(stage.pass);
  figures.kept_bytes = static_cast<double>(stage.kept);
  return figures;
}

// Returns the figures of a pass between the first and the last one.
StepFigures figures_of_pass(const ddp::StepInput& input, const ddp::MeasuredStep& measured,
                            const StepFigures& whole) {
  StepFigures figures = figures_of(measured.middle);
  (input.is_mesh ? figures.tp_exposed_ns : figures.dp_exposed_ns) = figures.exposed_ns;
  figures.flops = whole.flops / input.microbatches;
  figures.events = whole.events / (input.microbatches + 2);  // with two steps of one pass
  return figures;
}

}  // namespace

StepFigures measure(PointContext& point, const ddp::StepInput& input) {
  return figures_of(point, input, run(point, input));
}

StepFigures measure_passes(PointContext& point, const ddp::StepInput& input) {
  constexpr int kPasses = 3;
  if (input.microbatches <= kPasses && !input.is_stage) return measure(point, input);
  ddp::StepInput few = input;
  few.microbatches = kPasses;
  few.size.batch = kPasses * input.microbatch().batch;
  const ddp::MeasuredStep measured = run(point, few);
  StepFigures figures = figures_of(point, few, measured);
  const StepFigures pass = figures_of_pass(few, measured, figures);
  for_each_figure([&](std::string_view, const auto& at) {
    at(figures) += (input.microbatches - kPasses) * at(pass);
  });
  return figures;
}

StepFigures extrapolate(const FiguresOfLayers& few, const FiguresOfLayers& more,
                        std::int64_t layers) {
  KB_CHECK(few.layers != more.layers, "a line through {} layers twice", few.layers);
  const double share =
      static_cast<double>(layers - few.layers) / static_cast<double>(more.layers - few.layers);
  StepFigures result;
  for_each_figure([&](std::string_view, const auto& at) {
    const double first = at(few.figures);
    at(result) = first + share * (at(more.figures) - first);
  });
  return result;
}

void set_figures(Row& row, const StepFigures& figures) {
  for_each_figure([&](std::string_view column, const auto& at) { row.set(column, at(figures)); });
}

StepFigures figures_in(const Row& row) {
  StepFigures figures;
  for_each_figure(
      [&](std::string_view column, const auto& at) { at(figures) = number_in(row, column); });
  return figures;
}

}  // namespace kernbench::benches::plan
