#include "benches/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>
#include <variant>

#include "benches/bench/cell.h"
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

// A row of the figures, or of `refused` alone.
Row simulate(PointContext& point, std::string_view table, const ddp::StepInput& input) {
  Row row = plan_row(table, input);
  try {
    const StepFigures figures = plan::measure(point, input);
    set_figures(row, figures);
  } catch (const Error& error) {
    const std::string lack = memory_that_lacks(error);
    if (lack.empty()) throw;
    row.set("refused", fmt::format("{} with {} layers", lack, input.size.layers));
  }
  return row;
}

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
      .set("layers", input.size.layers);
}

const std::vector<Plan>& Planner::run() {
  time_by_layers();
  sort();
  check_one_fits();
  measure_best();
  check_one_fits();
  return plans_;
}

void Planner::sort() {
  std::ranges::stable_sort(
      plans_, {}, [](const Plan& plan) { return std::pair(!plan.fits(), plan.figures.step_ns); });
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

// Few layers need no line.
void Planner::time_by_layers() {
  if (question_.model.size.layers <= kMostOfFew) {
    std::vector<Plan*> all;
    for (Plan& plan : plans_) all.push_back(&plan);
    return measure(all, "full");
  }
  Sweep sweep(bench_, "layers");
  for (const Plan& plan : plans_) {
    for (const std::int64_t layers : few_layers(plan.input.scheme)) {
      ddp::StepInput input = plan.input;
      input.size.layers = layers;
      sweep.add(fmt::format("{}, {} layers", describe(input), layers),
                [input](PointContext& point) { return simulate(point, "layers", input); });
    }
  }
  const std::vector<Row> rows = sweep.run();
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    take_lines(rows[2 * i], rows[2 * i + 1], plans_[i]);
  }
}

void Planner::measure(const std::vector<Plan*>& wanted, std::string sweep_name) {
  Sweep sweep(bench_, std::move(sweep_name));
  for (const Plan* const plan : wanted) {
    sweep.add(describe(plan->input), [input = plan->input](PointContext& point) {
      return simulate(point, "full", input);
    });
  }
  const std::vector<Row> rows = sweep.run();
  for (std::size_t i = 0; i < wanted.size(); ++i) take(rows[i], *wanted[i]);
}

// The best ones, and then the first until it is a measured one: measured steps may be longer.
void Planner::measure_best() {
  auto count = static_cast<std::size_t>(question_.full);
  for (int round = 1;; ++round) {
    std::vector<Plan*> wanted;
    for (Plan& plan : plans_ | std::views::take(count)) {
      const bool is_cheap = plan.figures.events <= kMostEvents;
      if (plan.fits() && !plan.is_measured && is_cheap) wanted.push_back(&plan);
    }
    if (wanted.empty()) return;
    measure(wanted, fmt::format("full {}", round));
    sort();
    count = 1;
  }
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
