#include "benches/collective_table.h"

#include <fmt/format.h>

#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

double microseconds(Time time) {
  return to_ns(time) / 1e3;
}

Row to_row(const CollectiveRow& row) {
  return Row()
      .set("collective", row.collective)
      .set("algorithm", row.algorithm)
      .set("world_size", row.world_size)
      .set("buffer_kind", row.buffer_kind)
      .set("n_elem", row.n_elem)
      .set("dtype", name_of(row.dtype))
      .set("bytes", row.bytes)
      .set("crit_ns", to_ns(row.critical))
      .set("time_ns", to_ns(row.time))
      .set("algbw_gbs", row.algbw_gbs())
      .set("busbw_gbs", row.busbw_gbs())
      .set("lower_bound_ns", to_ns(row.lower_bound))
      .set("closed_form_ns",
           row.closed_form ? std::optional(to_ns(*row.closed_form)) : std::nullopt)
      .set("closed_form", row.closed_form ? std::optional(row.form) : std::nullopt)
      .set("wrong", row.wrong);
}

}  // namespace

double all_reduce_bus_factor(int world_size) {
  return 2.0 * (world_size - 1) / world_size;
}

double CollectiveRow::algbw_gbs() const {
  return time > Time{0} ? static_cast<double>(bytes) / to_ns(time) : 0;
}

double CollectiveRow::busbw_gbs() const {
  return algbw_gbs() * bus_factor.value_or(all_reduce_bus_factor(world_size));
}

void CollectiveTable::begin() {
  bench_.print(fmt::format(
      "#\n"
      "# {:>11} {:>11} {:>6} {:>6} {:>11} {:>11} {:>9} {:>9} {:>11} {:>11} {:>7}\n"
      "# {:>11} {:>11} {:>25} {:>11} {:>9} {:>9} {:>11} {:>11}\n",
      "size", "count", "type", "redop", "time", "crit", "algbw", "busbw", "bound", "form", "#wrong",
      "(B)", "(elements)", "(us)", "(us)", "(GB/s)", "(GB/s)", "(us)", "(us)"));
}

void CollectiveTable::add(const CollectiveRow& row) {
  KB_CHECK(row.time >= row.lower_bound, "{} of {} B took {}, less than the lower bound of {}",
           row.collective, row.bytes, to_string(row.time), to_string(row.lower_bound));
  const std::string wrong = fmt::format("{:>7}", row.wrong);
  bench_.print(fmt::format(
      "  {:>11} {:>11} {:>6} {:>6} {:>11.3f} {:>11.3f} {:>9.2f} {:>9.2f} {:>11.3f} {:>11} {}\n",
      row.bytes, row.n_elem, name_of(row.dtype), row.redop, microseconds(row.time),
      microseconds(row.critical), row.algbw_gbs(), row.busbw_gbs(), microseconds(row.lower_bound),
      row.closed_form ? fmt::format("{:.3f}", microseconds(*row.closed_form)) : "-",
      row.wrong == 0 ? wrong : bench_.console().alarming(wrong)));
  if (!row.why.empty()) bench_.print(fmt::format("#   took the fastest: {}\n", row.why));
  ++row_count_;
  wrong_ += row.wrong;
  busbw_sum_ += row.busbw_gbs();
  bus_factor_ = row.bus_factor.value_or(all_reduce_bus_factor(row.world_size));
  if (row.closed_form) {
    forms_differ_ = forms_differ_ || (!form_.empty() && form_ != row.form);
    form_ = row.form;
  }
  bench_.add_row(to_row(row), row.wrong == 0);
}

void CollectiveTable::end() {
  const std::string verdict = wrong_ == 0 ? "OK" : bench_.console().alarming("FAILED");
  bench_.print(fmt::format("# Out of bounds values : {} {}\n", wrong_, verdict));
  bench_.print(fmt::format("# Avg bus bandwidth    : {:.4g} GB/s  (busbw = algbw * {}{:.4g})\n",
                           row_count_ == 0 ? 0 : busbw_sum_ / row_count_,
                           bus_factor_ == 1 ? "" : "2(P-1)/P = algbw * ", bus_factor_));
  if (!form_.empty() && !forms_differ_) {
    bench_.print(
        fmt::format("# Closed form          : {}  (links alone; a, b: latency and time per "
                    "byte between neighbours)\n",
                    form_));
  }
}

}  // namespace kernbench::benches
