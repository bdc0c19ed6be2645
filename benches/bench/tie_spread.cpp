#include "benches/bench/tie_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "benches/bench/cell.h"
#include "benches/bench/row_cells.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

std::vector<std::pair<std::string, double>> times_in(const Row& row) {
  std::vector<std::pair<std::string, double>> times;
  for (const auto& [column, cell] : row.cells()) {
    if (!column.ends_with("_ns") || column.starts_with("wait_")) continue;
    if (const double* const time = std::get_if<double>(&cell)) times.emplace_back(column, *time);
  }
  return times;
}

}  // namespace

TieSpread::TieSpread(const Row& row) {
  for (const auto& [column, time] : times_in(row)) times_.push_back({column, time, time});
}

void TieSpread::add(const Row& row) {
  const auto times = times_in(row);
  KB_CHECK(times.size() == times_.size(), "{} times, and {} in another order", times_.size(),
           times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    times_[i].least = std::min(times_[i].least, times[i].second);
    times_[i].most = std::max(times_[i].most, times[i].second);
  }
}

void TieSpread::write(Row& row) const {
  double largest = 0;
  std::optional<std::string> of;
  for (const auto& [column, least, most] : times_) {
    const double spread = least > 0 ? (most - least) / least : 0;
    if (spread <= largest) continue;
    largest = spread;
    of = column;
  }
  row.set(kTieSpread, largest).set(kTieColumn, of);
}

void TieSummary::add(const Row& row, std::string_view point) {
  const double spread = number_in(row, kTieSpread);
  ++points_;
  varying_ += spread > 0 ? 1 : 0;
  if (spread <= largest_) return;
  largest_ = spread;
  where_ = fmt::format("{} of {}", text_in(row, kTieColumn), point);
}

std::string TieSummary::text(std::string_view name, int orders) const {
  const std::string in_orders =
      fmt::format("{} in {} more orders of simultaneous events", name, orders);
  if (varying_ == 0) return in_orders + ": the same times at every point";
  return fmt::format("{}: other times at {} of {} points, by up to {:.2f} % ({})", in_orders,
                     varying_, points_, 100 * largest_, where_);
}

}  // namespace kernbench::benches
