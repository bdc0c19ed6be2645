// `kernbench whatif`.

#include "benches/bench/bench_run.h"
#include "benches/cli/commands.h"
#include "benches/cli/perform.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/variants/row_plot.h"
#include "benches/variants/variant_sweep.h"
#include "benches/variants/what_if.h"
#include "benches/variants/what_if_orders.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::cli {

namespace {

constexpr std::size_t kMostCurves = 7;

// The speed-ups of the resources that buy most, as points of curves.
std::vector<Row> list_curve_points(const variants::WhatIf& result) {
  std::vector<Row> points;
  for (const variants::Gain& gain : result.gains) {
    if (points.size() == 4 * kMostCurves) break;
    const auto add = [&](std::string_view speed, double value) {
      points.push_back(
          Row().set("resource", gain.resource).set("speed", speed).set("speed-up", value));
    };
    add("as it is", 1);
    add("x2", gain.x2);
    add("x4", gain.x4);
    add("infinite", gain.infinite);
  }
  return points;
}

void add_artifacts(Bench& bench, const variants::WhatIf& result) {
  bench.add_artifact("whatif.csv", to_csv(variants::to_rows(result)));
  variants::RowPlot plot = variants::make_plot(
      list_curve_points(result), {.x = "speed", .y = "speed-up", .by = "resource"},
      fmt::format("What if one resource were faster: {}", result.column), "whatif_curves.csv");
  plot.chart.subtitle = bench.topology().name;
  bench.add_artifact(plot.chart.csv, to_csv(plot.points));
  figure::FigureArtifacts(bench).add("whatif", plot.chart);
}

Gains to_gains(const variants::WhatIf& result) {
  Gains gains;
  for (const variants::Gain& gain : result.gains) {
    gains.push_back({.resource = gain.resource,
                     .value = gain.value,
                     .x2 = gain.x2,
                     .x4 = gain.x4,
                     .infinite = gain.infinite,
                     .alone_us = gain.alone_ns / 1e3});
  }
  return gains;
}

}  // namespace

int whatif(const WhatIfArguments& arguments, ProcessTeam* team) {
  const BenchInfo& info = registered_benches().find(arguments.run.bench);
  const variants::VariantMaker maker(variant_request(info, arguments.run));
  if (maker.count() > 1) {
    throw UsageError("KB-U016",
                     "whatif varies one run, and --set gives {}; give one value to each key",
                     maker.count());
  }
  const std::vector<variants::Variant> variants = variants::what_if_variants(maker);
  Gains gains;
  return perform(info, arguments.run, team,
                 {.first = variants.front(),
                  .inputs = maker.inputs(),
                  .axes = {fmt::format("the speed of each resource, in {} runs", variants.size())},
                  .run =
                      [&](Bench& bench) {
                        const auto check = [&](std::span<const Row> rows) {
                          variants::time_column(rows, arguments.metric);
                        };
                        const std::vector<Row> rows = variants::run_variants(
                            bench, "whatif", info, variants,
                            {.check_first = check,
                             .adds_simulated = arguments.metric == variants::kSimulated});
                        variants::WhatIf result = variants::what_if(
                            rows, maker, variants::time_column(rows, arguments.metric));
                        result.slower = variants::slower_runs(bench, info, variants, result);
                        bench.print(to_table(result));
                        add_artifacts(bench, result);
                        gains = to_gains(result);
                      },
                  .ran = {},
                  .command = "whatif",
                  .records_first = true,
                  .gains = &gains});
}

}  // namespace kernbench::benches::cli
