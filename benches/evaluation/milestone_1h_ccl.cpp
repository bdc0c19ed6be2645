// milestone-1h-ccl: the whole evaluation of all_reduce in one command (ADR-0043, ADR-0054).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/evaluation/ccl_charts.h"
#include "benches/evaluation/ccl_evaluation.h"
#include "benches/evaluation/milestones.h"
#include "benches/figure/figure_artifacts.h"
#include "benches/figure/topology_diagram.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::evaluation {

namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 24;

double critical_us(const Row& row) {
  return number_in(row, "crit_ns") / 1e3;
}

void add_figures(Bench& bench, const CclEvaluation& results) {
  figure::FigureArtifacts figures(bench);
  figures.add("latency", latency_chart(results.latency));
  figures.add("buffer_kinds", buffer_kind_chart(results.buffer_kinds));
  figures.add("model_vs_fsim", fsim_chart(results.latency, shipped_fsim_reference()));
  for (const std::string_view topology : kEvaluatedTopologies) {
    figures.add(fmt::format("topology_{}", topology),
                figure::topology_diagram(load_topology(std::string(topology))));
  }
}

// A line for each size and a column for each value of the cell `by`.  The rows have all sizes of
// the first value, then those of the next one.
void print_pivot(Bench& bench, std::string_view title, std::span<const Row> rows,
                 std::string_view by, int width) {
  const std::string& first = text_in(rows.front(), by);
  const auto sizes = static_cast<std::size_t>(
      std::ranges::count_if(rows, [&](const Row& row) { return text_in(row, by) == first; }));
  std::string text = fmt::format("#\n# {}\n#    n_elem", title);
  for (std::size_t i = 0; i < rows.size(); i += sizes) {
    text += fmt::format(" {:>{}}", text_in(rows[i], by), width);
  }
  for (std::size_t size = 0; size < sizes; ++size) {
    text += fmt::format("\n  {:>9}", number_in(rows[size], "n_elem"));
    for (std::size_t i = size; i < rows.size(); i += sizes) {
      text += fmt::format(" {:>{}.3f}", critical_us(rows[i]), width);
    }
  }
  bench.print(text + '\n');
}

// "center on ring_1d_6, torus_2d_2x3; first_corner on original_6sip"
// REQUIRES: a row for each root of each topology
std::string describe_fastest_roots(std::span<const Row> rows, std::string_view measure) {
  std::string text;
  for (const ccl::Root root : ccl::kRoots) {
    std::string topologies;
    for (std::size_t i = 0; i < rows.size(); i += ccl::kRoots.size()) {
      const auto of_topology = rows.subspan(i, ccl::kRoots.size());
      const Row& fastest = *std::ranges::min_element(
          of_topology, {}, [&](const Row& row) { return number_in(row, measure); });
      if (text_in(fastest, "root") != name_of(root)) continue;
      topologies +=
          fmt::format("{}{}", topologies.empty() ? " on " : ", ", text_in(fastest, "topology"));
    }
    if (topologies.empty()) continue;
    text += fmt::format("{}{}{}", text.empty() ? "" : "; ", name_of(root), topologies);
  }
  return text;
}

// A line for each topology, with three figures for each root.
void print_roots(Bench& bench, std::span<const Row> rows) {
  std::string text = fmt::format(
      "#\n# root of the tree over cubes, {} elements (us): the slowest PE, since all "
      "PEs run, ranks wait\n#{:<20}",
      number_in(rows.front(), "n_elem"), "");
  for (const ccl::Root root : ccl::kRoots) text += fmt::format(" {:>26}", name_of(root));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i % ccl::kRoots.size() == 0) {
      text += fmt::format("\n {:<20}", text_in(rows[i], "topology"));
    }
    for (const char* name : {"crit_ns", "joint_ns", "time_ns"}) {
      text += fmt::format(" {:>8.3f}", number_in(rows[i], name) / 1e3);
    }
  }
  bench.print(text +
              "\n# corner is the cube farthest from the IO chiplet, first_corner the one "
              "beside it; original_6sip is fitted (ADR-0185)\n");
  bench.print(fmt::format(
      "# ranks wait least with {}\n"
      "#   The tree from the center has the fewest steps. From first_corner the way between SIPs "
      "is\n"
      "#   shorter by the cubes up to the IO chiplet, at both ends, which may take back more.\n",
      describe_fastest_roots(rows, "time_ns")));
}

void print_verdict(Bench& bench, const CclEvaluation& results) {
  std::int64_t wrong = 0;
  std::size_t count = 0;
  for (const auto* rows :
       {&results.correctness, &results.latency, &results.buffer_kinds, &results.roots}) {
    count += rows->size();
    for (const Row& row : *rows) wrong += static_cast<std::int64_t>(number_in(row, "wrong"));
  }
  bench.print(fmt::format("#\n# {} points, out of bounds values: {} {}\n", count, wrong,
                          wrong == 0 ? "OK" : bench.run().console.alarming("FAILED")));
}

// Three orders are simulated, the usual one included.
constexpr int kTieOrders = 2;

// The evaluation names its own topologies, so another one would be ignored.
void check_topology(const Bench& bench) {
  const std::string& given = bench.topology().name;
  if (given == "default") return;
  throw UsageError("KB-U012",
                   "--topology {}: milestone-1h-ccl evaluates {}, and buffer kinds on {}; leave it "
                   "out, or run `--bench ccl-allreduce` on yours",
                   given, fmt::join(kEvaluatedTopologies, ", "), kBufferKindTopology);
}

void run_milestone_ccl(Bench& bench) {
  check_topology(bench);
  bench.output_folder("benches/1H_milestone_output/ccl");
  bench.note("evaluates", fmt::format("{}; buffer kinds on {}; f16, a summand on every cube",
                                      fmt::join(kEvaluatedTopologies, ", "), kBufferKindTopology));
  bench.submit_sentinel();
  CclSizes sizes;
  if (bench.settings().is_set("n_elem")) {
    sizes.latency = sizes.buffer_kinds = bench.settings().integers("n_elem", 1, kMaxElements);
  }
  const CclEvaluation results = evaluate_ccl(bench, sizes);

  print_pivot(bench, "latency of the slowest PE (us)", results.latency, "topology", 20);
  print_pivot(bench, fmt::format("where the queues lie, on {} (us)", kBufferKindTopology),
              results.buffer_kinds, "buffer_kind", 10);
  print_roots(bench, results.roots);
  print_verdict(bench, results);
  bench.add_artifact("correctness.csv", to_csv(results.correctness));
  bench.add_artifact("summary.csv", to_csv(results.latency));
  bench.add_artifact("buffer_kinds.csv", to_csv(results.buffer_kinds));
  bench.add_artifact("roots.csv", to_csv(results.roots));
  add_figures(bench, results);
}

}  // namespace

BenchInfo milestone_1h_ccl() {
  return {
      "milestone-1h-ccl",
      "the evaluation of all_reduce: latency and buffer kinds, CSV and figures",
      {{"n_elem", "", "elements per cube, a list; else those of ADR-0043", SettingType::integers}},
      run_milestone_ccl,
      nullptr,
      BenchRanks::own,
      kTieOrders};
}

}  // namespace kernbench::benches::evaluation
