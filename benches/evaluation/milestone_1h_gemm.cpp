// milestone-1h-gemm: the whole evaluation of GEMM in one command (ADR-0044, ADR-0054).

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/evaluation/figure_artifacts.h"
#include "benches/evaluation/gemm_evaluation.h"
#include "benches/evaluation/gemm_figures.h"
#include "benches/evaluation/milestones.h"

namespace kernbench::benches {

namespace {

// MILESTONE_FAST=1 takes the points of an earlier run if this run would compute the same ones.
bool wants_saved_points() {
  const char* fast = std::getenv("MILESTONE_FAST");
  return fast != nullptr && std::string_view(fast) == "1";
}

bool has(std::span<const Row> rows, GemmFamily family) {
  return std::ranges::any_of(
      rows, [&](const Row& row) { return text_in(row, "family") == name_of(family); });
}

// Adds the figures for which there are rows.
void add_figures(Bench& bench, std::span<const Row> rows) {
  const Topology& topology = bench.topology();
  FigureArtifacts figures(bench);
  figures.add("measured_vs_theoretical", agreement_figure(rows, topology));
  if (has(rows, GemmFamily::square)) {
    figures.add("utilization_square", square_utilization_figure(rows, topology));
  }
  for (const std::int64_t tokens : kTokenCounts) {
    if (!has(rows, GemmFamily::projection)) break;
    figures.add(fmt::format("utilization_projections_{}_tokens", tokens),
                projection_figure(rows, topology, tokens));
  }
  figures.add("roofline", roofline_figure(rows, topology));
}

void print_table(Bench& bench, std::span<const Row> rows) {
  bench.print(
      fmt::format("#\n#   {:<24} {:>5} {:>13} {:>13} {:>8} {:>9} {:>8} {:>6}\n"
                  "#   {:<24} {:>5} {:>13} {:>13} {:>8} {:>9} {:>8}\n",
                  "shape", "on", "measured", "theoretical", "util", "rate", "bound", "#wrong", "",
                  "", "(us)", "(us)", "(%)", "(TFLOP/s)", ""));
  for (const Row& row : rows) {
    const Cell& wrong = *row.find("wrong");
    const Cell& utilization = *row.find("utilization");
    const auto* share = std::get_if<double>(&utilization);
    const auto* count = std::get_if<std::int64_t>(&wrong);
    bench.print(fmt::format(
        "    {:<24} {:>5} {:>13.3f} {:>13.3f} {:>8} {:>9.3f} {:>8} {:>6}\n", text_in(row, "shape"),
        text_in(row, "on"), number_in(row, "time_ns") / 1e3, number_in(row, "theoretical_ns") / 1e3,
        share == nullptr ? "-" : fmt::format("{:.1f}", 100 * *share), number_in(row, "tflops"),
        text_in(row, "bound"), count == nullptr ? "-" : fmt::format("{}", *count)));
  }
}

void print_verdict(Bench& bench, std::span<const Row> rows) {
  std::size_t equal = 0;
  std::size_t bounds = 0;
  std::size_t computed = 0;
  std::size_t right = 0;
  for (const Row& row : rows) {
    equal += number_in(row, "time_ns") == number_in(row, "theoretical_ns");
    bounds += text_in(row, "theory") != "exact";
    computed += std::holds_alternative<std::int64_t>(*row.find("wrong"));
    right += is_right(row);
  }
  const std::string of_bounds =
      bounds == 0 ? std::string()
                  : fmt::format(
                        " (of {} it is a lower bound: PEs share slices of HBM, or rows lie "
                        "more than a page apart)",
                        bounds);
  bench.print(
      fmt::format("#\n# {} points: {} take the theoretical time to the picosecond{}; every "
                  "element of {} is checked, of the others times only: {}\n",
                  rows.size(), equal, of_bounds, computed,
                  right == rows.size() ? "OK" : bench.run().console.alarming("FAILED")));
}

void run_milestone_gemm(Bench& bench) {
  bench.output_folder("benches/1H_milestone_output/gemm");
  bench.note("evaluates", "tl.composite, f16, beside the recurrence of ADR-0044");
  bench.submit_sentinel();
  const Settings& settings = bench.settings();
  const std::vector<GemmFamily> families = settings.choices("families", kGemmFamilies);
  const std::vector<Row> rows = evaluate_gemm(
      bench, gemm_shapes(families), settings.choices("on", kGemmOn), wants_saved_points());

  print_table(bench, rows);
  print_verdict(bench, rows);
  bench.add_artifact("summary.csv", to_csv(rows));
  add_figures(bench, rows);
}

}  // namespace

BenchInfo milestone_1h_gemm() {
  return {"milestone-1h-gemm",
          "the evaluation of GEMM: measured beside theoretical, CSV and figures",
          {{"families", "square,tall,wide,gemv,projection", "shapes, a list"},
           {"on", "pe,cube,sip,all", "who works, a list"}},
          run_milestone_gemm,
          nullptr};
}

}  // namespace kernbench::benches
