// milestone-1h-gemm: the whole evaluation of GEMM in one command (ADR-0044, ADR-0054).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string>
#include <variant>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/table.h"
#include "benches/evaluation/gemm_charts.h"
#include "benches/evaluation/gemm_evaluation.h"
#include "benches/evaluation/milestones.h"
#include "benches/figure/figure_artifacts.h"

namespace kernbench::benches::evaluation {

namespace {

// MILESTONE_FAST=1 takes the points of an earlier run if this run would compute the same ones.
bool wants_saved_points() {
  const char* fast = std::getenv("MILESTONE_FAST");
  return fast != nullptr && std::string_view(fast) == "1";
}

// True if a row, of this family if one is named, has something to draw: a value above zero.
bool has(std::span<const Row> rows, std::string_view column, std::string_view family = {}) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const bool is_wanted = family.empty() || text_in(row, "family") == family;
    return is_wanted && number_or_null(row, column).value_or(0) > 0;
  });
}

void add_figures(Bench& bench, std::span<const Row> rows) {
  const Topology& topology = bench.topology();
  figure::FigureArtifacts figures(bench);
  if (has(rows, "theoretical_ns")) {
    figures.add("measured_vs_theoretical", agreement_chart(rows, topology));
  }
  if (has(rows, "utilization", name_of(GemmFamily::square))) {
    figures.add("utilization_square", square_utilization_chart(rows, topology));
  }
  for (const std::int64_t tokens : kTokenCounts) {
    if (!has(rows, "utilization", name_of(GemmFamily::projection))) break;
    figures.add(fmt::format("utilization_projections_{}_tokens", tokens),
                projection_chart(rows, topology, tokens));
  }
  if (has(rows, "tflops")) figures.add("roofline", roofline_chart(rows, topology));
}

constexpr std::array kColumns = {
    TableColumn{"shape", "", -25, "shape"},
    TableColumn{"on", "", 5, "on"},
    TableColumn{"measured", "(us)", 13, "time_ns", 1e-3, 3},
    TableColumn{"theoretical", "(us)", 13, "theoretical_ns", 1e-3, 3},
    TableColumn{"util", "(%)", 8, "utilization", 100, 1},
    TableColumn{"rate", "(TFLOP/s)", 9, "tflops", 1, 3},
    TableColumn{"bound", "", 8, "bound"},
    TableColumn{"#wrong", "", 6, "wrong"},
};

void print_table(Bench& bench, std::span<const Row> rows) {
  bench.print("#\n" + table_head(kColumns));
  for (const Row& row : rows) bench.print(table_line(kColumns, row, bench.run().console));
}

// "; of the 120 others 114 are within 10 % of the model, the farthest 24 %"
std::string describe_modelled(std::span<const Row> rows) {
  constexpr double kNear = 0.1;
  std::size_t count = 0;
  std::size_t near = 0;
  double farthest = 0;
  for (const Row& row : rows) {
    if (text_in(row, "theory") == "exact" || number_in(row, "time_ns") == 0) continue;
    const double off = std::abs(number_in(row, "theoretical_ns") / number_in(row, "time_ns") - 1);
    ++count;
    near += off <= kNear;
    farthest = std::max(farthest, off);
  }
  if (count == 0) return "";
  return fmt::format("; of the {} others {} are within 10 % of the model, the farthest {:.0f} %",
                     count, near, 100 * farthest);
}

void print_verdict(Bench& bench, std::span<const Row> rows) {
  std::size_t exact = 0;
  std::size_t computed = 0;
  std::size_t right = 0;
  for (const Row& row : rows) {
    exact += text_in(row, "theory") == "exact" &&
             number_in(row, "time_ns") == number_in(row, "theoretical_ns");
    computed += std::holds_alternative<std::int64_t>(*row.find("wrong"));
    right += is_right(row);
  }
  bench.print(
      fmt::format("#\n# {} points: {} of one PE take the theoretical time to the picosecond{}\n"
                  "# every element of {} is checked, of the others times only: {}\n",
                  rows.size(), exact, describe_modelled(rows), computed,
                  right == rows.size() ? "OK" : bench.run().console.alarming("FAILED")));
}

void run_milestone_gemm(Bench& bench) {
  bench.output_folder("benches/1H_milestone_output/gemm");
  bench.note("evaluates", "tl.composite, f16, beside the recurrence of ADR-0044");
  const Settings& settings = bench.settings();
  const auto families = settings.choices("families", kGemmFamilies);
  const auto on = settings.choices("on", gemm::kGemmOn);
  bench.submit_sentinel();
  const std::vector<Row> rows =
      evaluate_gemm(bench, gemm_shapes(families), on, wants_saved_points());

  print_table(bench, rows);
  print_verdict(bench, rows);
  bench.add_artifact("summary.csv", to_csv(rows));
  add_figures(bench, rows);
}

}  // namespace

BenchInfo milestone_1h_gemm() {
  return {"milestone-1h-gemm",
          "the evaluation of GEMM: measured beside theoretical, CSV and figures",
          {{"families", "square,tall,wide,gemv,projection", "shapes, a list", SettingType::names},
           {"on", "pe,cube,sip,all", "who works, a list", SettingType::names}},
          run_milestone_gemm,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::evaluation
