// milestone-1h-ccl: the whole evaluation of all_reduce in one command (ADR-0043, ADR-0054).

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "benches/bench/bench.h"
#include "benches/bench/inputs.h"
#include "benches/evaluation/ccl_evaluation.h"
#include "benches/evaluation/ccl_figures.h"
#include "benches/evaluation/figure_artifacts.h"
#include "benches/figure/topology_diagram.h"

namespace kernbench::benches {

namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 24;

double microseconds_in(const Row& row, std::string_view column) {
  return number_in(row, column) / 1e3;
}

void add_figures(Bench& bench, const CclEvaluation& results) {
  FigureArtifacts figures(bench);
  for (const std::string_view topology : kEvaluatedTopologies) {
    figures.add(fmt::format("latency_{}", topology), latency_figure(results.latency, topology));
    figures.add(fmt::format("topology_{}", topology),
                figure::topology_diagram(load_topology(std::string(topology))));
  }
  figures.add("buffer_kinds", buffer_kind_figure(results.buffer_kinds));
  figures.add("model_vs_fsim", fsim_figure(results.latency, shipped_fsim_reference()));
}

// A column per topology.
void print_latency(Bench& bench, std::span<const Row> rows, const CclSizes& sizes) {
  bench.print("#\n# latency of the slowest PE (us)\n#    n_elem");
  for (const std::string_view topology : kEvaluatedTopologies) {
    bench.print(fmt::format(" {:>20}", topology));
  }
  bench.print("\n");
  for (std::size_t i = 0; i < sizes.latency.size(); ++i) {
    bench.print(fmt::format("  {:>9}", sizes.latency[i]));
    for (std::size_t t = 0; t < kEvaluatedTopologies.size(); ++t) {
      const Row& row = rows[t * sizes.latency.size() + i];
      bench.print(fmt::format(" {:>20.3f}", microseconds_in(row, "crit_ns")));
    }
    bench.print("\n");
  }
}

void print_buffer_kinds(Bench& bench, std::span<const Row> rows, const CclSizes& sizes) {
  bench.print(
      fmt::format("#\n# where the queues lie, on {} (us)\n#    n_elem", kBufferKindTopology));
  for (const sim::BufferKind kind : sim::kBufferKinds) {
    bench.print(fmt::format(" {:>10}", name_of(kind)));
  }
  bench.print("\n");
  for (std::size_t i = 0; i < sizes.buffer_kinds.size(); ++i) {
    bench.print(fmt::format("  {:>9}", sizes.buffer_kinds[i]));
    for (std::size_t k = 0; k < sim::kBufferKinds.size(); ++k) {
      const Row& row = rows[k * sizes.buffer_kinds.size() + i];
      bench.print(fmt::format(" {:>10.3f}", microseconds_in(row, "crit_ns")));
    }
    bench.print("\n");
  }
}

void print_roots(Bench& bench, std::span<const Row> rows) {
  bench.print(fmt::format("#\n# root of the tree over cubes, on {}, {} elements (us)\n",
                          kRootTopology, number_in(rows.front(), "n_elem")));
  for (const Row& row : rows) {
    bench.print(
        fmt::format("  {:>9} {:>10.3f}\n", text_in(row, "root"), microseconds_in(row, "crit_ns")));
  }
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
                          wrong == 0 ? "OK" : bench.console().alarming("FAILED")));
}

}  // namespace

KERNBENCH_BENCH("milestone-1h-ccl",
                "the evaluation of all_reduce: latency and buffer kinds, CSV and figures",
                {"n_elem", "", "elements per cube, a list; else those of ADR-0043"}) {
  bench.output_folder("benches/1H_milestone_output/ccl");
  bench.note("evaluates", fmt::format("{}; buffer kinds on {}; f16, a summand on every cube",
                                      fmt::join(kEvaluatedTopologies, ", "), kBufferKindTopology));
  bench.submit_sentinel();
  CclSizes sizes;
  if (bench.settings().is_set("n_elem")) {
    sizes.latency = sizes.buffer_kinds = bench.settings().integers("n_elem", 1, kMaxElements);
  }
  const CclEvaluation results = evaluate_ccl(bench, sizes);

  print_latency(bench, results.latency, sizes);
  print_buffer_kinds(bench, results.buffer_kinds, sizes);
  print_roots(bench, results.roots);
  print_verdict(bench, results);
  bench.add_artifact("correctness.csv", to_csv(results.correctness));
  bench.add_artifact("summary.csv", to_csv(results.latency));
  bench.add_artifact("buffer_kinds.csv", to_csv(results.buffer_kinds));
  bench.add_artifact("roots.csv", to_csv(results.roots));
  add_figures(bench, results);
}

}  // namespace kernbench::benches
