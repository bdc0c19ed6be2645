#include "benches/tensor_parallel/step_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "benches/bench/bench.h"
#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/tensor_parallel/step_charts.h"
#include "benches/tensor_parallel/step_check.h"
#include "benches/tensor_parallel/step_result.h"
#include "benches/tensor_parallel/step_table.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr int kMostRanks = 1024;

[[noreturn]] void does_not_divide(std::string_view setting, std::int64_t divisor,
                                  std::string_view of, std::int64_t whole) {
  throw UsageError("KB-U012", "--set {}: {} does not divide {}, which is {}", setting, divisor, of,
                   whole);
}

// The largest number up to `available` that divides `whole`.
int largest_divisor(std::int64_t whole, int available) {
  int largest = available;
  while (whole % largest != 0) --largest;
  return largest;
}

// The number of PEs per rank; left open, not more than a cube has.  It is the same at every point,
// so that tp times as many PEs share a step.
int choose_pes(const Bench& bench, const StepBench& steps, std::span<const std::int64_t> tps) {
  std::int64_t shared = 0;
  for (const std::int64_t tp : tps) shared = std::gcd(shared, steps.cut / tp);
  const int available = bench.topology().cube_count();
  const int largest = largest_divisor(shared, std::min(available, bench.topology().pe_count()));
  if (!bench.settings().is_set("pes")) return largest;
  const std::int64_t pes = bench.settings().integer("pes", 1, pes_of_sip(bench.topology()));
  if (pes > available) {
    throw UsageError("KB-U012",
                     "--set pes: {} are more than the {} cubes of a SIP, and a rank's part lies on "
                     "one PE of each",
                     pes, available);
  }
  for (const std::int64_t tp : tps) {
    const std::int64_t own = steps.cut / tp;
    if (own % pes == 0) continue;
    throw UsageError(
        "KB-U012",
        "--set pes: {} does not divide {} / tp, which is {} at tp {}; {} divides it at every tp",
        pes, steps.cut_name, own, tp, largest);
  }
  return static_cast<int>(pes);
}

void check_tp(const Bench& bench, const StepBench& steps, std::int64_t tp) {
  if (steps.cut % tp != 0) does_not_divide("tp", tp, steps.cut_name, steps.cut);
  if (bench.settings().flag("sequence_parallel") && steps.tokens % tp != 0) {
    does_not_divide("tp", tp, "the number of tokens", steps.tokens);
  }
}

std::vector<StepPoint> read_points(const Bench& bench, const StepBench& steps) {
  const Settings& settings = bench.settings();
  std::vector<std::int64_t> tps = settings.integers("tp", 1, kMostRanks);
  for (const std::int64_t tp : tps) check_tp(bench, steps, tp);
  std::ranges::sort(tps);
  const StepInput input{.tokens = steps.tokens,
                        .hidden = steps.hidden,
                        .dtype = settings.choice("dtype", kDTypes),
                        .pes = choose_pes(bench, steps, tps),
                        .sequence_parallel = settings.flag("sequence_parallel"),
                        .overlap = settings.flag("overlap")};
  std::vector<StepPoint> points;
  for (const std::int64_t tp : tps) {
    points.push_back({static_cast<int>(tp), input});
  }
  return points;
}

std::vector<Row> simulate(PointContext& context, const StepBench& steps, const StepPoint& point) {
  const Bench& bench = context.bench();
  const bool checks = bench.settings().flag("check");
  const Topology topology = with_sips(bench.topology(), point.tp);
  const DenseModel values = checks ? steps.draw() : DenseModel();
  const auto torch =
      context.make_context(topology, {.ccl = bench.ccl(), .data = checks, .fold = 1});
  const std::vector<RankStep> ranks = run_training_step(
      *torch, point.input, [&](RuntimeContext& own) { return steps.build(own, point.input); },
      checks ? &values : nullptr);
  StepResult result = summarize(topology, ranks, steps.forward_flops, point.input.pes);
  if (checks) {
    context.throw_if_interrupted();
    const SingleRank single{context.contexts(), topology, steps.build, values};
    result.check = check_step(ranks, point.input, steps.expect(single, point.input));
    context.check(result.check->wrong == 0 && result.check->unequal == 0);
  }
  return to_rows(result);
}

// "GPT: ..., f16, sequence parallel"
std::string describe(const StepBench& steps, const StepInput& input) {
  return fmt::format("{}, {}{}", steps.model, name_of(input.dtype),
                     input.sequence_parallel ? ", sequence parallel" : "");
}

// "8 of the 128 PEs of each SIP, one of a cube (4 x 4 cubes of 8 PEs)"
std::string describe_pes(const Topology& topology, int pes) {
  return fmt::format("{} of the {} PEs of each SIP, one of a cube ({})", pes, pes_of_sip(topology),
                     describe_sip(topology));
}

void note_what_runs(Bench& bench, const StepBench& steps, std::span<const StepPoint> points) {
  const Topology& topology = bench.topology();
  const bool is_given = std::ranges::all_of(
      points, [&](const StepPoint& point) { return point.tp == topology.system.sip_count; });
  bench.note("ranks", is_given ? "all SIPs are one tensor parallel group"
                               : "each point has a ring of tp SIPs like these, a rank on each; if "
                                 "they are as many, the topology itself");
  bench.note("PEs", describe_pes(bench.topology(), points.front().input.pes));
  bench.note("model", describe(steps, points.front().input));
  bench.note("step", steps.flops_form);
  if (bench.settings().flag("check")) bench.note("check", steps.check_form);
}

void add_artifacts(Bench& bench, const std::string& what, const StepRows& rows) {
  if (bench.run().output_folder.empty()) return;
  bench.add_artifact("steps.csv", to_csv(rows.steps));
  bench.add_artifact("collectives.csv", to_csv(rows.collectives));
  figure::FigureArtifacts figures(bench);
  figures.add("strong_scaling", strong_scaling_chart(rows.steps, what));
  figures.add("step_time", step_time_chart(rows.steps, what));
}

}  // namespace

std::vector<SettingInfo> with_step_settings(std::vector<SettingInfo> own) {
  for (const SettingInfo& setting : std::initializer_list<SettingInfo>{
           {"tp", "1,2,4,8", "ranks that share the model, a list: a point for each",
            SettingType::integers},
           {"dtype", "f16", "f16, bf16 or f32", SettingType::name},
           {"pes", "",
            "PEs of a SIP that share its part, one in each of so many cubes, the same number at "
            "every tp; else the most that divide all parts",
            SettingType::integer},
           algorithm_setting(),
           {"sequence_parallel", "false", "ranks share the tokens between the parallel layers",
            SettingType::flag},
           {"overlap", "true",
            "backward's communication goes on beside the products for the weights",
            SettingType::flag},
           {"check", "true", "false: times only, no values", SettingType::flag}}) {
    own.push_back(setting);
  }
  return own;
}

void run_step_sweep(Bench& bench, const StepBench& steps) {
  check_rank_is_sip(bench);
  const std::vector<StepPoint> points = read_points(bench, steps);
  note_what_runs(bench, steps, points);
  Sweep sweep(bench, "steps");
  for (const StepPoint& point : points) {
    sweep.add(fmt::format("tp {}", point.tp),
              [&steps, point](PointContext& context) { return simulate(context, steps, point); });
  }
  const StepRows rows = split_rows(sweep.run());
  print_steps(bench, rows);
  const StepInput& input = points.front().input;
  add_artifacts(
      bench,
      fmt::format("{}; {}", describe(steps, input), describe_pes(bench.topology(), input.pes)),
      rows);
}

}  // namespace kernbench::benches::tensor_parallel
