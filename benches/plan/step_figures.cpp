#include "benches/plan/step_figures.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

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
    Figure{"bound_ns", &StepFigures::bound_ns},
    Figure{"peak_bytes", &StepFigures::peak_bytes},
    Figure{"flops", &StepFigures::flops},
    Figure{"events", &StepFigures::events},
    Figure{"held_bytes", &StepFigures::held_bytes},
    Figure{"gradient_bytes", &StepFigures::gradient_bytes},
    Figure{"pass_bytes", &StepFigures::pass_bytes},
    Figure{"kept_bytes", &StepFigures::kept_bytes},
};

// Calls visit(column, at) for each time of a stage's costs, which at(costs) refers to.
template <class Visit>
void for_each_cost(const Visit& visit) {
  using pipeline::Cost;
  using Pass = pipeline::CostsOfPass;
  using Stage = pipeline::CostsOfStage;
  constexpr std::array<std::pair<std::string_view, Time Cost::*>, 3> kTimes = {
      {{"launching", &Cost::launching}, {"idle", &Cost::idle}, {"queued", &Cost::queued}}};
  constexpr std::array<std::pair<std::string_view, Cost Pass::*>, 4> kParts = {
      {{"forward", &Pass::forward},
       {"backward", &Pass::backward},
       {"input", &Pass::input},
       {"weight", &Pass::weight}}};
  constexpr std::array<std::pair<std::string_view, Pass Stage::*>, 3> kPasses = {
      {{"first", &Stage::first}, {"later", &Stage::later}, {"last", &Stage::last}}};
  constexpr std::array<std::pair<std::string_view, Cost Stage::*>, 2> kEnds = {
      {{"gradients", &Stage::gradients}, {"optimizer", &Stage::optimizer}}};
  visit(
      std::string("reduction_ns"), [](auto& costs) -> auto& { return costs.reduction; });
  for (const auto& [name, time] : kTimes) {
    for (const auto& [of_part, part] : kParts) {
      for (const auto& [of_pass, pass] : kPasses) {
        visit(
            fmt::format("{}_{}_{}_ns", of_pass, of_part, name),
            [ pass = pass, part = part, time =
              time ](auto& costs) -> auto& { return costs.*pass.*part.*time; });
      }
    }
    for (const auto& [of_end, end] : kEnds) {
      visit(
          fmt::format("{}_{}_ns", of_end, name),
          [ end = end, time = time ](auto& costs) -> auto& { return costs.*end.*time; });
    }
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
  figures.bound_ns = to_ns(measured.bound);
  figures.are_below_cap = measured.are_below_cap;
  const ddp::StageStep& stage = measured.stage;
  figures.costs = stage.costs;
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
  // There are two steps of one pass before, and a stage has the step twice.
  figures.events = whole.events / (input.microbatches * (input.is_stage ? 2 : 1) + 2);
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
  for (const auto& [column, value] : kFigures) {
    figures.*value += (input.microbatches - kPasses) * pass.*value;
  }
  return figures;
}

StepFigures extrapolate(const FiguresOfLayers& few, const FiguresOfLayers& more,
                        std::int64_t layers) {
  KB_CHECK(few.layers != more.layers, "a line through {} layers twice", few.layers);
  const std::int64_t steps = layers - few.layers;
  const std::int64_t between = more.layers - few.layers;
  const double share = static_cast<double>(steps) / static_cast<double>(between);
  StepFigures result;
  for (const auto& [column, value] : kFigures) {
    const double first = few.figures.*value;
    result.*value = first + share * (more.figures.*value - first);
  }
  for_each_cost([&](const std::string&, const auto& at) {
    const Time first = at(few.figures.costs);
    at(result.costs) = first + (at(more.figures.costs) - first) * steps / between;
  });
  return result;
}

void set_figures(Row& row, const StepFigures& figures) {
  for (const auto& [column, value] : kFigures) row.set(column, figures.*value);
  for_each_cost([&](const std::string& column, const auto& at) {
    const Time time = at(figures.costs);
    if (time != Time{0}) row.set(column, to_ns(time));
  });
}

StepFigures figures_in(const Row& row) {
  StepFigures figures;
  for (const auto& [column, value] : kFigures) figures.*value = number_in(row, column);
  for_each_cost([&](const std::string& column, const auto& at) {
    if (row.find(column) != nullptr) at(figures.costs) = time_in(row, column);
  });
  return figures;
}

}  // namespace kernbench::benches::plan
