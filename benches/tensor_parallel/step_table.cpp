#include "benches/tensor_parallel/step_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/row_cells.h"

namespace kernbench::benches {

namespace {

std::string percent_or_dash(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}", 100 * *share) : "-";
}

std::string count_or_dash(const std::optional<double>& count) {
  return count ? fmt::format("{:.0f}", *count) : "-";
}

std::string step_line(const Row& first, const Row& row) {
  const double step = number_in(row, "step_ns");
  const auto us = [&](std::string_view column) { return number_in(row, column) / 1e3; };
  const auto share = [&](std::string_view column) { return 100 * number_in(row, column) / step; };
  return fmt::format(
      "{:>6} {:>4} {:>11.3f} {:>11.3f} {:>11.3f} {:>8.2f} {:>8.1f} {:>8.1f} {:>8.1f} {:>8.1f} "
      "{:>9.3f} {:>7} {:>11.3f} {:>7}\n",
      number_in(row, "tp"), number_in(row, "pes"), us("forward_ns"), us("backward_ns"),
      us("step_ns"), number_in(first, "step_ns") / step, share("compute_ns"),
      share("communication_ns"), share("exposed_ns"), share("idle_ns"),
      number_in(row, "tflops_per_sip"), percent_or_dash(number_or_null(row, "utilization_of_pes")),
      us("bound_ns"), count_or_dash(number_or_null(row, "wrong")));
}

std::string collective_line(const Row& row) {
  const double count = number_in(row, "count");
  const double us = number_in(row, "time_ns") / 1e3;
  const auto busbw = number_or_null(row, "busbw_gbs");
  return fmt::format("{:>6}  {:<24} {:>12.0f} {:>7.0f} {:>12.3f} {:>12.3f} {:>9}  {}\n",
                     number_in(row, "tp"), text_in(row, "collective"), number_in(row, "size_bytes"),
                     count, us, us / count, busbw ? fmt::format("{:.2f}", *busbw) : "-",
                     text_in(row, "algorithm"));
}

double sum_of(std::span<const Row> rows, std::string_view column) {
  double sum = 0;
  for (const Row& row : rows) sum += number_or_null(row, column).value_or(0);
  return sum;
}

double largest_of(std::span<const Row> rows, std::string_view column) {
  double largest = 0;
  for (const Row& row : rows) largest = std::max(largest, number_or_null(row, column).value_or(0));
  return largest;
}

void print_verdict(Bench& bench, std::span<const Row> steps) {
  if (!number_or_null(steps.front(), "wrong")) return;
  const double wrong = sum_of(steps, "wrong");
  const double unequal = sum_of(steps, "unequal");
  bench.print(
      fmt::format("#\n# {:.0f} elements on all ranks: wrong {:.0f}, in other bits than "
                  "rank 0's {:.0f} {}\n",
                  sum_of(steps, "checked"), wrong, unequal,
                  wrong + unequal == 0 ? "OK" : bench.console().alarming("FAILED")));
  if (const double bound = largest_of(steps, "error_bound"); bound > 0) {
    bench.print(
        fmt::format("# of the worst tensor, root mean squares over that of its values: "
                    "error {:.2e}, bound {:.2e}; the largest error is {:.2f} of its "
                    "bound\n",
                    largest_of(steps, "error"), bound, largest_of(steps, "worst_error")));
  }
}

void print_step_table(Bench& bench, std::span<const Row> steps) {
  const Row& first = steps.front();
  bench.print(fmt::format(
      "#\n# of the rank that takes longest; comm: a collective is under way, exposed: and no "
      "kernel computes, idle: neither\n"
      "# of peak: of the arrays of so many PEs (pes); a SIP has {:.0f}\n"
      "#{:>5} {:>4} {:>11} {:>11} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>11} {:>7}\n"
      "#{:>5} {:>4} {:>11} {:>11} {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>9} {:>7} {:>11}\n",
      number_in(first, "sip_pes"), "tp", "pes", "forward", "backward", "step", "speed-up",
      "compute", "comm", "exposed", "idle", "per SIP", "of peak", "bound", "#wrong", "", "", "(us)",
      "(us)", "(us)", "", "(%)", "(%)", "(%)", "(%)", "(TFLOP/s)", "(%)", "(us)"));
  for (const Row& row : steps) bench.print(step_line(first, row));
}

void print_collective_table(Bench& bench, std::span<const Row> collectives) {
  if (collectives.empty()) return;
  bench.print(
      fmt::format("#\n#{:>5}  {:<24} {:>12} {:>7} {:>12} {:>12} {:>9}  {}\n"
                  "#{:>5}  {:<24} {:>12} {:>7} {:>12} {:>12} {:>9}\n",
                  "tp", "collective", "size", "count", "time", "each", "busbw", "algorithm", "", "",
                  "(B)", "", "(us)", "(us)", "(GB/s)"));
  for (const Row& row : collectives) bench.print(collective_line(row));
  if (number_in(collectives.front(), "tp") == 1) {
    bench.print("# at tp 1 a collective sums over the PEs of the SIP, and no link is used\n");
  }
}

}  // namespace

StepRows split_rows(const std::vector<Row>& rows) {
  StepRows split;
  for (const Row& row : rows) {
    (text_in(row, "table") == "step" ? split.steps : split.collectives).push_back(row);
  }
  return split;
}

void print_steps(Bench& bench, const StepRows& rows) {
  print_step_table(bench, rows.steps);
  print_collective_table(bench, rows.collectives);
  print_verdict(bench, rows.steps);
}

}  // namespace kernbench::benches
