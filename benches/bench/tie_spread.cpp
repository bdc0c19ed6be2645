#include "benches/bench/tie_spread.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/cell.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

std::vector<double> times_in(const Row& row) {
  std::vector<double> times;
  for (const auto& [column, cell] : row.cells()) {
    if (!column.ends_with("_ns") || column.starts_with("wait_")) continue;
    if (const double* const time = std::get_if<double>(&cell)) times.push_back(*time);
  }
  return times;
}

}  // namespace

TieSpread::TieSpread(const Row& row) {
  for (const double time : times_in(row)) times_.push_back({time, time});
}

void TieSpread::add(const Row& row) {
  const std::vector<double> times = times_in(row);
  KB_CHECK(times.size() == times_.size(), "{} times, and {} in another order", times_.size(),
           times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    times_[i] = {std::min(times_[i].least, times[i]), std::max(times_[i].most, times[i])};
  }
}

double TieSpread::largest() const {
  double largest = 0;
  for (const auto& [least, most] : times_) {
    if (least > 0) largest = std::max(largest, (most - least) / least);
  }
  return largest;
}

void TieSummary::add(double spread, std::string_view point) {
  ++points_;
  varying_ += spread > 0 ? 1 : 0;
  if (spread <= largest_) return;
  largest_ = spread;
  where_ = point;
}

std::string TieSummary::text(std::string_view name, int orders) const {
  const std::string in_orders =
      fmt::format("{} in {} more orders of simultaneous events", name, orders);
  if (varying_ == 0) return in_orders + ": the same times at every point";
  return fmt::format("{}: other times at {} of {} points, by up to {:.2f} % ({})", in_orders,
                     varying_, points_, 100 * largest_, where_);
}

}  // namespace kernbench::benches
