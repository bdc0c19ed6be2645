#include "benches/tensor_parallel/step_sweep.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/evaluation/figure_artifacts.h"
#include "benches/inputs.h"
#include "benches/row_cells.h"
#include "benches/sweep.h"
#include "benches/tensor_parallel/step_check.h"
#include "benches/tensor_parallel/step_figures.h"
#include "benches/tensor_parallel/step_result.h"
#include "benches/tensor_parallel/step_table.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

constexpr int kMostRanks = 1024;

[[noreturn]] void does_not_divide(std::string_view setting, std::int64_t divisor,
                                  std::string_view of, std::int64_t whole) {
  throw UsageError("KB-U012", fmt::format("--set {}: {} does not divide {}, which is {}", setting,
                                          divisor, of, whole));
}

// Of the numbers that divide what a rank has, the largest that are so many PEs.
int most_pes(std::int64_t own, int available) {
  int most = available;
  while (own % most != 0) --most;
  return most;
}

StepPoint point_of(const Bench& bench, const StepBench& steps, int tp) {
  const Settings& settings = bench.settings();
  StepPoint point{.tp = tp, .input = {}, .overlap = settings.flag("overlap")};
  point.input = {.tokens = steps.tokens,
                 .hidden = steps.hidden,
                 .dtype = settings.choice("dtype", kDTypes),
                 .pes = 1,
                 .sequence_parallel = settings.flag("sequence_parallel")};
  if (steps.cut % tp != 0) does_not_divide("tp", tp, steps.cut_name, steps.cut);
  if (point.input.sequence_parallel && steps.tokens % tp != 0) {
    does_not_divide("tp", tp, "the number of tokens", steps.tokens);
  }
  const std::int64_t own = steps.cut / tp;
  const int available = bench.topology().pe_count();
  if (!settings.is_set("pes")) {
    point.input.pes = most_pes(own, available);
    return point;
  }
  point.input.pes = static_cast<int>(settings.integer("pes", 1, available));
  if (own % point.input.pes != 0) {
    does_not_divide("pes", point.input.pes, fmt::format("{} / tp", steps.cut_name), own);
  }
  return point;
}

std::vector<StepPoint> points_of(const Bench& bench, const StepBench& steps) {
  std::vector<StepPoint> points;
  for (const std::int64_t tp : bench.settings().integers("tp", 1, kMostRanks)) {
    points.push_back(point_of(bench, steps, static_cast<int>(tp)));
  }
  std::ranges::sort(points, {}, &StepPoint::tp);
  return points;
}

Topology topology_of(const Bench& bench, int tp) {
  const Topology& given = bench.topology();
  return given.system.sip_count == tp ? given : in_ring(given, tp);
}

std::vector<Row> simulate(PointContext& context, const StepBench& steps, const StepPoint& point) {
  const Bench& bench = context.bench();
  const bool checks = bench.settings().flag("check");
  const Topology topology = topology_of(bench, point.tp);
  const DenseModel values = checks ? steps.draw() : DenseModel();
  const auto torch = context.make_context(topology, {.ccl = bench.ccl(), .data = checks});
  const std::vector<RankStep> ranks = run_training_step(
      *torch, point.input, [&](RuntimeContext& own) { return steps.build(own, point); },
      checks ? &values : nullptr);
  StepResult result = summarize(topology, ranks, steps.forward_flops, point.input.pes);
  if (checks) {
    context.throw_if_interrupted();
    result.check = check_step(ranks, point.input, steps.expect(values, point));
    context.check(result.check->wrong == 0 && result.check->unequal == 0);
  }
  return to_rows(result);
}

// "GPT: ..., f16, sequence parallel"
std::string describe(const StepBench& steps, const StepInput& input) {
  return fmt::format("{}, {}{}", steps.model, name_of(input.dtype),
                     input.sequence_parallel ? ", sequence parallel" : "");
}

void note_what_runs(Bench& bench, const StepBench& steps, std::span<const StepPoint> points) {
  const Topology& topology = bench.topology();
  const bool is_given = std::ranges::all_of(
      points, [&](const StepPoint& point) { return point.tp == topology.system.sip_count; });
  bench.note("ranks", is_given ? "all SIPs are one tensor parallel group"
                               : "each point has a ring of tp SIPs like these, a rank on each; if "
                                 "they are as many, the topology itself");
  bench.note("model", describe(steps, points.front().input));
  bench.note("step", steps.flops_form);
  if (bench.settings().flag("check")) bench.note("check", steps.check_form);
}

void add_artifacts(Bench& bench, const std::string& model, const StepRows& rows) {
  if (!bench.wants_artifacts()) return;
  bench.add_artifact("steps.csv", to_csv(rows.steps));
  bench.add_artifact("collectives.csv", to_csv(rows.collectives));
  const std::string what = fmt::format("{}; SIPs of {}", model, describe_sip(bench.topology()));
  FigureArtifacts figures(bench);
  figures.add("strong_scaling", strong_scaling_figure(rows.steps, what));
  figures.add("step_time", step_time_figure(rows.steps, what));
}

}  // namespace

std::vector<SettingInfo> with_step_settings(std::vector<SettingInfo> own) {
  for (const SettingInfo& setting : std::initializer_list<SettingInfo>{
           {"tp", "1,2,4,8", "ranks that share the model, a list: a point for each"},
           {"dtype", "f16", "f16, bf16 or f32"},
           {"pes", "", "PEs of a SIP that share its part; else as many as divide it"},
           {"sequence_parallel", "false", "ranks share the tokens between the parallel layers"},
           {"overlap", "true",
            "backward's communication goes on beside the products for the weights"},
           {"check", "true", "false: times only, no values"}}) {
    own.push_back(setting);
  }
  return own;
}

void run_step_sweep(Bench& bench, const StepBench& steps) {
  bench.check_rank_is_sip();
  const std::vector<StepPoint> points = points_of(bench, steps);
  note_what_runs(bench, steps, points);
  Sweep sweep(bench, "steps");
  for (const StepPoint& point : points) {
    sweep.add(fmt::format("tp {}", point.tp),
              [&steps, point](PointContext& context) { return simulate(context, steps, point); });
  }
  const StepRows rows = split_rows(sweep.run());
  print_steps(bench, rows);
  add_artifacts(bench, describe(steps, points.front().input), rows);
}

}  // namespace kernbench::benches
