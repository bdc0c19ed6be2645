// Points of a sweep in several orders of simultaneous events.

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/sweep_run.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

// The column of rows that were simulated in several orders.
constexpr std::string_view kTieSpread = "tie_spread";

std::vector<double> times_in(const Row& row) {
  std::vector<double> times;
  for (const auto& [column, cell] : row.cells()) {
    if (!column.ends_with("_ns") || column.starts_with("wait_")) continue;
    if (const double* const time = std::get_if<double>(&cell)) times.push_back(*time);
  }
  return times;
}

// How far a row's times, its columns `..._ns`, vary with the order of simultaneous events.
class TieSpread {
 public:
  explicit TieSpread(const Row& row) {
    for (const double time : times_in(row)) times_.push_back({time, time});
  }

  void add(const Row& row) {
    const std::vector<double> times = times_in(row);
    KB_CHECK(times.size() == times_.size(), "{} times, and {} in another order", times_.size(),
             times.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      times_[i] = {std::min(times_[i].least, times[i]), std::max(times_[i].most, times[i])};
    }
  }

  // The largest of (most - least) / least; 0 if all orders give the same.
  double largest() const {
    double largest = 0;
    for (const auto& [least, most] : times_) {
      if (most > least) largest = std::max(largest, (most - least) / least);
    }
    return largest;
  }

 private:
  struct Range {
    double least = 0;
    double most = 0;
  };
  std::vector<Range> times_;
};

}  // namespace

// Simulates the point again with other orders of simultaneous events, and adds to its rows how far
// their times vary.  Returns false if it has not passed its checks in one of them.
bool SweepRun::simulate_in_other_orders(Point& point, std::vector<Row>& rows) {
  std::vector<TieSpread> spreads(rows.begin(), rows.end());
  bool ok = true;
  for (int seed = 1; seed <= run_.request.tie_orders; ++seed) {
    ContextSet shuffled(*point.contexts, static_cast<std::uint64_t>(seed));
    PointContext context(bench_, shuffled);
    const std::vector<Row> others = point.simulate(context);
    KB_CHECK(others.size() == rows.size(), "the point '{}' has {} rows, and {} in another order",
             point.key, rows.size(), others.size());
    for (std::size_t i = 0; i < rows.size(); ++i) spreads[i].add(others[i]);
    ok = ok && context.ok();
  }
  if (run_.request.tie_orders == 0) return ok;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].set(kTieSpread, spreads[i].largest());
  return ok;
}

void SweepRun::note_ties() const {
  std::size_t varying = 0;
  double largest = 0;
  std::string_view where;
  for (const Point& point : points_) {
    double spread = 0;
    for (const Row& row : point.outcome->rows)
      spread = std::max(spread, number_in(row, kTieSpread));
    varying += spread > 0 ? 1 : 0;
    if (spread <= largest) continue;
    largest = spread;
    where = point.key;
  }
  const std::string orders =
      fmt::format("{} in {} more orders of simultaneous events", name_, run_.request.tie_orders);
  bench_.note("ties", varying == 0
                          ? orders + ": the same times at every point"
                          : fmt::format("{}: other times at {} of {} points, by up to "
                                        "{:.2f} % ({})",
                                        orders, varying, points_.size(), 100 * largest, where));
}

}  // namespace kernbench::benches
