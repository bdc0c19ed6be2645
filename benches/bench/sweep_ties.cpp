// Points of a sweep in several orders of simultaneous events.

#include <algorithm>

#include "benches/bench/bench_run.h"
#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/sweep_run.h"
#include "benches/bench/tie_spread.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

// Simulates the point again with other orders of simultaneous events, and adds to its rows how far
// their times vary.  Returns false if it has not passed its checks in one of them.
bool SweepRun::simulate_in_other_orders(Point& point, std::vector<Row>& rows) {
  std::vector<TieSpread> spreads(rows.begin(), rows.end());
  bool ok = true;
  for (int seed = 1; seed <= run_.tie_orders(); ++seed) {
    ContextSet shuffled(*point.contexts, static_cast<std::uint64_t>(seed));
    PointContext context(bench_, shuffled);
    const std::vector<Row> others = point.simulate(context);
    KB_CHECK(others.size() == rows.size(), "the point '{}' has {} rows, and {} in another order",
             point.key, rows.size(), others.size());
    for (std::size_t i = 0; i < rows.size(); ++i) spreads[i].add(others[i]);
    ok = ok && context.ok();
  }
  if (run_.tie_orders() == 0) return ok;
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].set(kTieSpread, spreads[i].largest());
  return ok;
}

void SweepRun::note_ties() const {
  TieSummary ties;
  for (const Point& point : points_) {
    double spread = 0;
    for (const Row& row : point.outcome->rows)
      spread = std::max(spread, number_in(row, kTieSpread));
    ties.add(spread, point.key);
  }
  bench_.note("ties", ties.text(name_, run_.tie_orders()));
}

}  // namespace kernbench::benches
