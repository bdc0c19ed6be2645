#include "benches/gemm/gemm_table.h"

#include <array>

#include "benches/bench/table.h"

namespace kernbench::benches::gemm {

namespace {

constexpr std::array kColumns = {
    TableColumn{"m", "", 6, "m"},
    TableColumn{"n", "", 6, "n"},
    TableColumn{"k", "", 6, "k"},
    TableColumn{"type", "", 8, "dtype"},
    TableColumn{"PEs", "", 5, "pes"},
    TableColumn{"time", "(us)", 13, "time_ns", 1e-3, 3},
    TableColumn{"rate", "(TFLOP/s)", 9, "tflops", 1, 3},
    TableColumn{"peak", "(TFLOP/s)", 9, "peak_tflops", 1, 3},
    TableColumn{"util", "(%)", 6, "utilization", 100, 1},
    TableColumn{"HBM", "(B)", 11, "hbm_bytes"},
    TableColumn{"bound", "", 8, "bound"},
    TableColumn{"roofline", "(us)", 12, "roofline_ns", 1e-3, 3},
    TableColumn{"#wrong", "", 7, "wrong"},
};

}  // namespace

Row to_row(const GemmRow& row) {
  const GemmInput& input = row.input;
  return Row()
      .set("m", input.size.m)
      .set("n", input.size.n)
      .set("k", input.size.k)
      .set("dtype", name_of(input.dtype))
      .set("pes", std::ssize(row.shares))
      .set("time_ns", to_ns(row.time))
      .set("tflops", row.tflops())
      .set("peak_tflops", row.peak_tflops)
      .set("utilization", row.utilization())
      .set("hbm_bytes", row.hbm_bytes())
      .set("bound", row.bound())
      .set("roofline_ns", to_ns(row.roofline()))
      .set("wrong", row.wrong)
      .set("on", name_of(input.placement.on))
      .set("cut", row.cut)
      .set("dataflow", name_of(row.dataflow))
      .set("tile_m", row.tile.m)
      .set("tile_n", row.tile.n)
      .set("tile_k", row.tile.k)
      .set("window_ns", to_ns(row.window))
      .set("gemm_count", row.gemm_count);
}

std::string to_text(const Row& row, const Console& console) {
  return "#\n" + table_head(kColumns) + table_line(kColumns, row, console);
}

}  // namespace kernbench::benches::gemm
