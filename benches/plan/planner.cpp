#include "benches/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <ranges>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "benches/bench/cell.h"
#include "benches/bench/inputs.h"
#include "benches/bench/row_cells.h"
#include "benches/ddp/pipeline_step.h"
#include "benches/ddp/step_parts.h"
#include "benches/plan/pipelines.h"
#include "benches/plan/reasons.h"
#include "benches/plan/step_figures.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::plan {

namespace {

// A line goes through the steps with so many layers.  The first layer adds another time than those
// behind it, and fully_shard() has up to three groups of parameters whole at a time.
std::array<std::int64_t, 2> few_layers(ddp::Scheme scheme) {
  if (scheme == ddp::Scheme::fsdp2) return {3, 5};
  return {2, 4};
}
constexpr std::int64_t kMostOfFew = 5;

std::vector<std::int64_t> layers_of_stage(std::int64_t layers) {
  if (layers <= kMostOfFew) return {layers};
  return {2, 4};
}

// The memory of the device that a step lacks: "out of HBM"; empty: it has failed otherwise.
std::string memory_that_lacks(const Error& error) {
  const std::string_view text = error.what();
  if (text.find("[KB-M010]") != text.npos) {
    for (const std::string_view lack : {"out of HBM", "out of SRAM", "out of TCM"}) {
      if (text.find(lack) != text.npos) return std::string(lack);
    }
  }
  return "";
}

// Returns a row of the figures, or of `refused` alone.
std::vector<Row> rows_of(PointContext& point, std::string_view table, const ddp::StepInput& input,
                         bool has_all_passes) {
  Row row = plan_row(table, input);
  try {
    const StepFigures figures =
        has_all_passes ? plan::measure(point, input) : measure_passes(point, input);
    set_figures(row, figures);
    row.set("are_below_cap", figures.are_below_cap);
  } catch (const Error& error) {
    const std::string lack = memory_that_lacks(error);
    if (lack.empty()) throw;
    row.set("refused", fmt::format("{} with {} layers", lack, input.size.layers));
  }
  return {row};
}

std::string describe_with_layers(const ddp::StepInput& input) {
  return fmt::format("{}, {} layers", describe(input), input.size.layers);
}

std::string describe_stage_with_layers(const ddp::StepInput& stage) {
  return fmt::format("{}, {} layers", describe_stage(stage), stage.size.layers);
}

RunName name_of_run(const ddp::StepInput& input, std::string (*describe)(const ddp::StepInput&)) {
  ddp::StepInput of = input;
  of.bucket_cap_mb = 0;
  return {describe(input), describe(of), input.bucket_cap_mb};
}

// Returns a time that the step takes with any larger cap.
double least_of_larger_caps(const StepFigures& figures) {
  return figures.step_ns - figures.dp_exposed_ns - figures.idle_ns;
}

// Plans of larger caps that are timed before it is asked again which are needed.
constexpr std::size_t kCapsAtOnce = 4;

const std::string* refusal_in(const Row& row) {
  const Cell* const cell = row.find("refused");
  return cell == nullptr ? nullptr : std::get_if<std::string>(cell);
}

}  // namespace

Row plan_row(std::string_view table, const ddp::StepInput& input) {
  Row row;
  return row.set("table", table)
      .set("scheme", name_of(input.scheme))
      .set("world", input.world)
      .set("tp", input.tp)
      .set("dp", input.dp())
      .set("sequence_parallel", input.parallel.sequence_parallel)
      .set("bucket_cap_mb", input.dp() > 1 ? std::optional(input.bucket_cap_mb) : std::nullopt)
      .set("pp", input.pp)
      .set("schedule",
           input.schedule == nullptr ? std::nullopt : std::optional(name_of(*input.schedule)))
      .set("chunks", input.chunks)
      .set("microbatches", input.microbatches)
      .set("checkpoint", name_of(input.recomputation))
      .set("layers", input.size.layers);
}

// A plan that is refused when it is run with all layers makes others needed.
const std::vector<Plan>& Planner::run() {
  do {
    time_all();
    sort();
    check_one_fits();
  } while (measure_best());
  return plans_;
}

void Planner::sort() {
  std::ranges::stable_sort(plans_, {}, [](const Plan& plan) {
    return std::tuple(!plan.fits(), !plan.needless.empty(), plan.figures.step_ns);
  });
}

void Planner::refuse_too_large(Plan& plan) const {
  const double more = plan.figures.peak_bytes - static_cast<double>(question_.memory);
  if (more > 0) plan.refused = fmt::format("needs {} more", show_bytes(more));
}

void Planner::take(const Row& row, Plan& plan) const {
  if (const std::string* const refusal = refusal_in(row)) {
    plan.refused = *refusal;
    return;
  }
  plan.figures = figures_in(row);
  plan.is_measured = true;
  refuse_too_large(plan);
}

void Planner::take_lines(const Row& few, const Row& more, Plan& plan) const {
  for (const Row* const row : {&few, &more}) {
    if (const std::string* const refusal = refusal_in(*row)) {
      plan.refused = *refusal;
      return;
    }
  }
  const auto [first, second] = few_layers(plan.input.scheme);
  plan.by_layers = extrapolate({first, figures_in(few)}, {second, figures_in(more)},
                               question_.model.size.layers);
  plan.figures = plan.by_layers;
  refuse_too_large(plan);
}

// Plans in rounds, since what one takes may make others needless.
void Planner::time_all() {
  while (true) {
    const std::vector<Plan*> wanted = choose_next();
    if (wanted.empty()) return;
    time_by_layers(wanted, fmt::format("layers {}", ++layer_rounds_));
  }
}

void Planner::time_by_layers(const std::vector<Plan*>& wanted, const std::string& sweep_name) {
  std::vector<Plan*> pipelines = wanted;
  const auto first = std::ranges::stable_partition(
      pipelines, [](const Plan* plan) { return plan->input.pp == 1; });
  const std::vector<Plan*> others(pipelines.begin(), first.begin());
  pipelines.erase(pipelines.begin(), first.begin());
  if (!others.empty()) time_by_lines(others, sweep_name);
  if (!pipelines.empty()) time_by_stages(pipelines, sweep_name + ", stages");
}

// Few layers need no line.
void Planner::time_by_lines(const std::vector<Plan*>& wanted, const std::string& sweep_name) {
  if (question_.model.size.layers <= kMostOfFew) return measure(wanted, sweep_name);
  std::vector<std::array<std::size_t, 2>> places;
  for (const Plan* const plan : wanted) {
    std::array<std::size_t, 2>& own = places.emplace_back();
    for (std::size_t i = 0; i < own.size(); ++i) {
      ddp::StepInput input = plan->input;
      input.size.layers = few_layers(input.scheme)[i];
      own[i] = runs_.want(name_of_run(input, describe_with_layers), [input](PointContext& point) {
        return rows_of(point, "layers", input, false);
      });
    }
  }
  runs_.run(sweep_name);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    take_lines(runs_.row(places[i][0]), runs_.row(places[i][1]), *wanted[i]);
  }
}

// Many plans have the same stages.
Planner::StageRuns Planner::want_stages(const ddp::StepInput& input) {
  StageRuns own;
  for (ddp::StepInput stage : kinds_of_stages(input)) {
    std::vector<LayersRun>& kind = own.kinds.emplace_back();
    for (const std::int64_t layers : layers_of_stage(stage.size.layers)) {
      stage.size.layers = layers;
      const std::size_t place = runs_.want(
          name_of_run(stage, describe_stage_with_layers),
          [stage](PointContext& point) { return rows_of(point, "stage", stage, false); });
      kind.push_back({layers, place});
    }
  }
  const std::string name = describe_messages(input);
  own.message = runs_.want({name, name}, [input](PointContext& point) {
    const Topology machine = with_sips(point.bench().topology(), input.world);
    const auto message = ddp::measure_messages(point, input, machine);
    return std::vector<Row>{plan_row("message", input)
                                .set("transfer_ns", to_ns(message.transfer))
                                .set("occupied_ns", to_ns(message.occupied))
                                .set("host_leg_ns", to_ns(message.host_leg))};
  });
  return own;
}

void Planner::time_by_stages(const std::vector<Plan*>& wanted, const std::string& sweep_name) {
  std::vector<StageRuns> runs;
  for (const Plan* const plan : wanted) runs.push_back(want_stages(plan->input));
  runs_.run(sweep_name);
  for (std::size_t i = 0; i < wanted.size(); ++i) take_stages(runs[i], *wanted[i]);
}

void Planner::take_stages(const StageRuns& runs, Plan& plan) const {
  std::vector<StepFigures> kinds;
  for (const std::vector<LayersRun>& kind : runs.kinds) {
    std::vector<FiguresOfLayers> few;
    for (const auto& [layers, place] : kind) {
      const Row& row = runs_.row(place);
      if (const std::string* const refusal = refusal_in(row)) {
        plan.refused = *refusal;
        return;
      }
      few.push_back({layers, figures_in(row)});
    }
    const std::int64_t layers = plan.input.size.layers / plan.input.stages();
    kinds.push_back(few.size() == 1 ? few[0].figures : extrapolate(few[0], few[1], layers));
  }
  const Row& message = runs_.row(runs.message);
  plan.by_layers = compose(plan.input, kinds,
                           {.transfer = time_in(message, "transfer_ns"),
                            .occupied = time_in(message, "occupied_ns"),
                            .host_leg = time_in(message, "host_leg_ns")});
  plan.figures = plan.by_layers;
  refuse_too_large(plan);
}

// True if plans that come before this one may decide it, or have the same runs.
bool Planner::waits(const Plan& plan) const {
  const auto is_open = [this](const Place& place) {
    const Plan* const other = find(place);
    return other != nullptr && other->is_open();
  };
  const auto& [family, cut, cap, recompute] = plan.place;
  if (is_open({family, cut, cap - 1, recompute})) return true;
  return !question_.is_exhaustive &&
         (is_open({family, cut, cap, recompute - 1}) || is_open({family, cut - 1, cap, recompute}));
}

// To compute more again takes longer, and so do more micro-batches: each has launches of its own,
// and reads all weights.  So what makes less of it needless makes more so, too.  A larger cap has
// fewer launches and collectives, so no less than idle and exposed time is left out.
std::string Planner::find_needless(const Plan& plan, double enough) const {
  const auto& [family, cut, cap, recompute] = plan.place;
  const std::array less = {std::pair(find({family, cut, cap, recompute - 1}), kKeepsMore),
                           std::pair(find({family, cut - 1, cap, recompute}), kCutsLess)};
  for (const auto& [other, reason] : less) {
    if (other == nullptr) continue;
    if (!other->needless.empty()) return other->needless;
    if (other->fits()) return std::string(reason);
  }
  const Plan* const smallest_cap = cap == 0 ? nullptr : find({family, cut, 0, recompute});
  if (smallest_cap == nullptr || !smallest_cap->fits()) return "";
  return least_of_larger_caps(smallest_cap->figures) > enough ? std::string(kIsSlower) : "";
}

// The plans that are not timed yet, and neither needless nor to be decided by those that are chosen
// now, which come before them.  Of larger caps a few, whose smallest cap is fastest: then the
// others may be too slow to be shown.
std::vector<Plan*> Planner::choose_next() {
  std::ranges::sort(plans_, {}, &Plan::place);
  std::vector<Plan*> wanted;
  std::vector<std::pair<double, Plan*>> larger;
  const double enough = step_of_last_shown();
  for (Plan& plan : plans_) {
    if (!plan.is_open() || waits(plan)) continue;
    if (!question_.is_exhaustive) plan.needless = find_needless(plan, enough);
    if (!plan.is_open()) continue;
    const auto& [family, cut, cap, recompute] = plan.place;
    const Plan* const smallest_cap = find({family, cut, 0, recompute});
    if (cap == 0 || question_.is_exhaustive || smallest_cap == nullptr) {
      wanted.push_back(&plan);
    } else {
      larger.emplace_back(smallest_cap->figures.step_ns, &plan);
    }
  }
  if (!wanted.empty()) return wanted;
  std::ranges::stable_sort(larger, {}, &std::pair<double, Plan*>::first);
  for (const auto& [step, plan] : larger | std::views::take(kCapsAtOnce)) wanted.push_back(plan);
  return wanted;
}

const Plan* Planner::find(const Place& place) const {
  const auto found = std::ranges::lower_bound(plans_, place, {}, &Plan::place);
  return found == plans_.end() || found->place != place ? nullptr : &*found;
}

// The step that a plan has to beat to be among those that are shown.
double Planner::step_of_last_shown() const {
  std::vector<double> steps;
  for (const Plan& plan : plans_) {
    if (plan.fits() && plan.is_timed()) steps.push_back(plan.figures.step_ns);
  }
  if (steps.size() < kShown) return std::numeric_limits<double>::infinity();
  std::ranges::nth_element(steps, steps.begin() + (kShown - 1));
  return steps[kShown - 1];
}

void Planner::measure(const std::vector<Plan*>& wanted, const std::string& sweep_name) {
  std::vector<std::size_t> places;
  for (const Plan* const plan : wanted) {
    places.push_back(
        runs_.want(name_of_run(plan->input, describe), [input = plan->input](PointContext& point) {
          return rows_of(point, "full", input, true);
        }));
  }
  runs_.run(sweep_name);
  for (std::size_t i = 0; i < wanted.size(); ++i) take(runs_.row(places[i]), *wanted[i]);
}

// The best ones, and then the first until it is a measured one: measured steps may be longer.
// Returns true if that has made plans needed that were not.
bool Planner::measure_best() {
  auto count = static_cast<std::size_t>(question_.full);
  while (true) {
    std::vector<Plan*> wanted;
    for (Plan& plan : plans_ | std::views::take(count)) {
      const bool is_cheap = plan.figures.events <= kMostEvents;
      if (plan.fits() && !plan.is_measured && is_cheap) wanted.push_back(&plan);
    }
    if (wanted.empty()) return false;
    measure(wanted, fmt::format("full {}", ++full_rounds_));
    bool has_new = false;
    for (const Plan* const plan : wanted) has_new |= !plan->fits() && reopen(plan->place);
    if (has_new) return true;
    sort();
    count = 1;
  }
}

// Plans that this one has made needless are not any more, and neither are those that are slower
// than a tenth, which may be another now.  Returns true if there are some.
bool Planner::reopen(const Place& place) {
  bool has_new = false;
  for (Plan& plan : plans_) {
    const bool is_other = plan.place.family != place.family && plan.needless != kIsSlower;
    if (plan.needless.empty() || is_other) continue;
    plan.needless.clear();
    has_new = true;
  }
  return has_new;
}

void Planner::check_one_fits() const {
  if (plans_.front().fits()) return;
  const Plan* smallest = nullptr;
  for (const Plan& plan : plans_) {
    if (plan.figures.step_ns == 0) continue;
    if (smallest == nullptr || plan.figures.peak_bytes < smallest->figures.peak_bytes) {
      smallest = &plan;
    }
  }
  const Plan& shown = smallest == nullptr ? plans_.front() : *smallest;
  throw UsageError("KB-U012",
                   "--set memory={}: none of {} plans fits; {}, {}: {}; more memory, more ranks, "
                   "fewer samples or a smaller model are wanted",
                   question_.memory, plans_.size(),
                   smallest == nullptr ? "the first" : "the smallest", describe(shown.input),
                   shown.refused);
}

}  // namespace kernbench::benches::plan
