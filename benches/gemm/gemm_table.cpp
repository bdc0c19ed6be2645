#include "benches/gemm/gemm_table.h"

#include <fmt/format.h>

namespace kernbench::benches {

namespace {

std::string or_dash(const std::optional<double>& number, int digits) {
  return number ? fmt::format("{:.{}f}", *number, digits) : "-";
}

}  // namespace

Row to_row(const GemmRow& row) {
  const GemmInput& input = row.input;
  return Row()
      .set("m", input.size.m)
      .set("n", input.size.n)
      .set("k", input.size.k)
      .set("dtype", name_of(input.dtype))
      .set("pes", row.pes)
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

std::string gemm_table_head() {
  return fmt::format(
      "#\n# {:>6} {:>6} {:>6} {:>5} {:>5} {:>13} {:>9} {:>9} {:>6} {:>13} {:>8} {:>13} {:>7}\n"
      "# {:>46} {:>9} {:>9} {:>6} {:>13} {:>22}\n",
      "m", "n", "k", "type", "PEs", "time", "rate", "peak", "util", "HBM", "bound", "roofline",
      "#wrong", "(us)", "(TFLOP/s)", "(TFLOP/s)", "(%)", "(B)", "(us)");
}

std::string gemm_table_line(const GemmRow& row, const Console& console) {
  const GemmInput& input = row.input;
  const auto utilization = row.utilization();
  const std::string wrong =
      row.wrong ? fmt::format("{:>7}", *row.wrong) : fmt::format("{:>7}", "-");
  return fmt::format(
      "  {:>6} {:>6} {:>6} {:>5} {:>5} {:>13.3f} {:>9.3f} {:>9} {:>6} {:>13} {:>8} {:>13.3f} {}\n",
      input.size.m, input.size.n, input.size.k, name_of(input.dtype), row.pes,
      to_ns(row.time) / 1e3, row.tflops(), or_dash(row.peak_tflops, 3),
      or_dash(utilization ? std::optional(100 * *utilization) : std::nullopt, 1), row.hbm_bytes(),
      row.bound(), to_ns(row.roofline()) / 1e3,
      row.wrong.value_or(0) == 0 ? wrong : console.alarming(wrong));
}

}  // namespace kernbench::benches
