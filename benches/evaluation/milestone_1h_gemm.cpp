// milestone-1h-gemm: the whole evaluation of GEMM in one command (ADR-0044, ADR-0054).

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <variant>

#include "benches/bench/bench.h"
#include "benches/bench/cell.h"
#include "benches/evaluation/figure_artifacts.h"
#include "benches/evaluation/gemm_evaluation.h"
#include "benches/evaluation/gemm_figures.h"
#include "benches/evaluation/saved_rows.h"

namespace kernbench::benches {

namespace {

constexpr std::string_view kSchema = "kernbench milestone-1h-gemm 2";
constexpr std::string_view kResults = "results.json";

// MILESTONE_FAST=1 uses the rows of an earlier run if this run would compute the same ones.
bool wants_saved_rows() {
  const char* fast = std::getenv("MILESTONE_FAST");
  return fast != nullptr && std::string_view(fast) == "1";
}

std::vector<Row> saved_rows(Bench& bench) {
  const std::filesystem::path path = bench.output_folder() / kResults;
  SavedRows saved = read_saved_rows(path, kSchema, bench.inputs_hash());
  if (!saved.problem.empty()) {
    bench.note("saved", fmt::format("{}: {}; all is computed again", path.string(), saved.problem));
    return {};
  }
  bench.note("saved", fmt::format("{} points of {}, nothing is simulated", saved.rows.size(),
                                  path.string()));
  for (const Row& row : saved.rows) bench.add_row(row, is_right(row));
  return std::move(saved.rows);
}

std::vector<Row> computed_rows(Bench& bench) {
  const Settings& settings = bench.settings();
  const std::vector<GemmFamily> families = settings.choices("families", kGemmFamilies);
  const std::vector<GemmOn> on = settings.choices("on", kGemmOn);
  return evaluate_gemm(bench, gemm_shapes(families), on);
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
                  right == rows.size() ? "OK" : bench.console().alarming("FAILED")));
}

}  // namespace

KERNBENCH_BENCH("milestone-1h-gemm",
                "the evaluation of GEMM: measured beside theoretical, CSV and figures",
                {"families", "square,tall,wide,gemv,projection", "shapes, a list"},
                {"on", "pe,cube,sip,all", "who works, a list"}) {
  bench.output_folder("benches/1H_milestone_output/gemm");
  bench.note("evaluates", "tl.composite, f16, beside the recurrence of ADR-0044");
  bench.submit_sentinel();
  std::vector<Row> rows;
  if (wants_saved_rows()) rows = saved_rows(bench);
  if (rows.empty()) rows = computed_rows(bench);

  print_table(bench, rows);
  print_verdict(bench, rows);
  bench.add_artifact(kResults, saved_rows_text(kSchema, bench.inputs_hash(), rows));
  bench.add_artifact("summary.csv", to_csv(rows));
  add_figures(bench, rows);
}

}  // namespace kernbench::benches
