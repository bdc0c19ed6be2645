#include "benches/tensor_parallel/step_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "benches/bench/bench_run.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/table.h"

namespace kernbench::benches::tensor_parallel {

namespace {

constexpr std::array kStepColumns = {
    TableColumn{"tp", "", 4, "tp"},
    TableColumn{"pes", "", 4, "pes"},
    TableColumn{"forward", "(us)", 10, "forward_ns", 1e-3, 3},
    TableColumn{"backward", "(us)", 10, "backward_ns", 1e-3, 3},
    TableColumn{"step", "(us)", 10, "step_ns", 1e-3, 3},
    TableColumn{"speed-up", "", 8, "speed_up", 1, 2},
    TableColumn{"compute", "(%)", 8, "compute", 100, 1},
    TableColumn{"comm", "(%)", 6, "communication", 100, 1},
    TableColumn{"exposed", "(%)", 7, "exposed", 100, 1},
    TableColumn{"idle", "(%)", 6, "idle", 100, 1},
    TableColumn{"per SIP", "(TFLOP/s)", 9, "tflops_per_sip", 1, 3},
    TableColumn{"of peak", "(%)", 7, "utilization_of_pes", 100, 1},
    TableColumn{"bound", "(us)", 10, "bound_ns", 1e-3, 3},
    TableColumn{"#wrong", "", 6, "wrong"},
};

constexpr std::array kCollectiveColumns = {
    TableColumn{"tp", "", 4, "tp"},
    TableColumn{"collective", "", -24, "collective"},
    TableColumn{"size", "(B)", 12, "size_bytes"},
    TableColumn{"count", "", 7, "count"},
    TableColumn{"time", "(us)", 12, "time_ns", 1e-3, 3},
    TableColumn{"each", "(us)", 12, "each_ns", 1e-3, 3},
    TableColumn{"busbw", "(GB/s)", 9, "busbw_gbs", 1, 2},
    TableColumn{"algorithm", "", 0, "algorithm"},
};

// Adds what a reader would compute: the speed-up over the first row, and shares of the step.
Row with_shares(Row row, const Row& first) {
  const double step = number_in(row, "step_ns");
  row.set("speed_up", number_in(first, "step_ns") / step);
  for (const std::string share : {"compute", "communication", "exposed", "idle"}) {
    row.set(share, number_in(row, share + "_ns") / step);
  }
  return row;
}

Row with_each(Row row) {
  return row.set("each_ns", number_in(row, "time_ns") / number_in(row, "count"));
}

double sum_column(std::span<const Row> rows, std::string_view column) {
  double sum = 0;
  for (const Row& row : rows) sum += number_or_null(row, column).value_or(0);
  return sum;
}

double find_largest(std::span<const Row> rows, std::string_view column) {
  double largest = 0;
  for (const Row& row : rows) largest = std::max(largest, number_or_null(row, column).value_or(0));
  return largest;
}

void print_verdict(Bench& bench, std::span<const Row> steps) {
  if (!number_or_null(steps.front(), "wrong")) return;
  const double wrong = sum_column(steps, "wrong");
  const double unequal = sum_column(steps, "unequal");
  bench.print(
      fmt::format("#\n# {:.0f} elements on all ranks: wrong {:.0f}, in other bits than "
                  "rank 0's {:.0f} {}\n",
                  sum_column(steps, "checked"), wrong, unequal,
                  wrong + unequal == 0 ? "OK" : bench.run().console.alarming("FAILED")));
  if (const double bound = find_largest(steps, "error_bound"); bound > 0) {
    bench.print(
        fmt::format("# of the worst tensor, root mean squares over that of its values: "
                    "error {:.2e}, bound {:.2e};\n"
                    "# the largest error is {:.2f} of its bound\n",
                    find_largest(steps, "error"), bound, find_largest(steps, "worst_error")));
  }
}

void print_step_table(Bench& bench, std::span<const Row> steps) {
  const Row& first = steps.front();
  bench.print(fmt::format(
      "#\n# of the rank that takes longest; comm: a collective is under way, exposed: and no "
      "kernel computes, idle: neither\n"
      "# of peak: of the arrays of so many PEs (pes); a SIP has {:.0f}\n{}",
      number_in(first, "sip_pes"), table_head(kStepColumns)));
  for (const Row& row : steps) {
    bench.print(table_line(kStepColumns, with_shares(row, first), bench.run().console));
  }
}

void print_collective_table(Bench& bench, std::span<const Row> collectives) {
  if (collectives.empty()) return;
  bench.print("#\n" + table_head(kCollectiveColumns));
  for (const Row& row : collectives) {
    bench.print(table_line(kCollectiveColumns, with_each(row), bench.run().console));
  }
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

}  // namespace kernbench::benches::tensor_parallel
