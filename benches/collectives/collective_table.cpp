#include "benches/collectives/collective_table.h"

#include <fmt/format.h>

#include <numeric>

#include "benches/collectives/bus_bandwidth.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

double microseconds(Time time) {
  return to_ns(time) / 1e3;
}

const BusFactor& all_reduce_factor() {
  return spec_of(MeasuredCollective::all_reduce).factor;
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

double CollectiveRow::algbw_gbs() const {
  return benches::algbw_gbs(bytes, time);
}

double CollectiveRow::busbw_gbs() const {
  return algbw_gbs() * bus_factor.value_or(all_reduce_factor().of(world_size));
}

std::string nccl_foot(std::int64_t wrong, std::span<const double> busbw_gbs,
                      std::string_view factor, const Console& console) {
  const std::string verdict = wrong == 0 ? "OK" : console.alarming("FAILED");
  const double sum = std::accumulate(busbw_gbs.begin(), busbw_gbs.end(), 0.0);
  const std::string average =
      busbw_gbs.empty() ? "N/A"
                        : fmt::format("{:.4g} GB/s", sum / static_cast<double>(busbw_gbs.size()));
  return fmt::format(
      "# Out of bounds values : {} {}\n"
      "# Avg bus bandwidth    : {}  (busbw = algbw * {})\n",
      wrong, verdict, average, factor);
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
  wrong_ += row.wrong;
  busbw_gbs_.push_back(row.busbw_gbs());
  bus_factor_ = row.bus_factor.value_or(all_reduce_factor().of(row.world_size));
  if (row.closed_form) {
    forms_differ_ = forms_differ_ || (!form_.empty() && form_ != row.form);
    form_ = row.form;
  }
  bench_.add_row(to_row(row), row.wrong == 0);
}

void CollectiveTable::end() {
  const std::string form =
      bus_factor_ == 1 ? "" : fmt::format("{} = algbw * ", all_reduce_factor().form);
  bench_.print(
      nccl_foot(wrong_, busbw_gbs_, fmt::format("{}{:.4g}", form, bus_factor_), bench_.console()));
  if (!form_.empty() && !forms_differ_) {
    bench_.print(
        fmt::format("# Closed form          : {}  (links alone; a, b: latency and time per "
                    "byte between neighbours)\n",
                    form_));
  }
}

}  // namespace kernbench::benches
