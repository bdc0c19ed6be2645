// Points of a sweep in several orders of simultaneous events.

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/cell.h"
#include "benches/bench/context_set.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/sweep_run.h"
#include "benches/bench/tie_spread.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

// The text of a point that has failed, whose only row says so; null: it has not.
const std::string* find_failure(const PointContext& context, std::span<const Row> rows) {
  if (context.ok() || rows.size() != 1) return nullptr;
  const Cell* const error = rows.front().find("error");
  return error == nullptr ? nullptr : std::get_if<std::string>(error);
}

}  // namespace

// Simulates the point again with other orders of simultaneous events, and adds to its rows how far
// their times vary, and the first order in which it fails.  Returns false if it has not passed its
// checks in one of them.
bool SweepRun::simulate_in_other_orders(Point& point, std::vector<Row>& rows) {
  std::vector<TieSpread> spreads(rows.begin(), rows.end());
  bool ok = true;
  for (int seed = 1; seed <= run_.tie_orders(); ++seed) {
    ContextSet shuffled(*point.contexts, static_cast<std::uint64_t>(seed));
    PointContext context(bench_, shuffled);
    const std::vector<Row> others = point.simulate(context);
    ok = ok && context.ok();
    if (const std::string* const failure = find_failure(context, others)) {
      if (!rows.empty() && rows.front().find("error") == nullptr)
        rows.front().set("error", fmt::format("with --shuffle-ties {}: {}", seed, *failure));
      continue;
    }
    KB_CHECK(others.size() == rows.size(), "the point '{}' has {} rows, and {} in another order",
             point.key, rows.size(), others.size());
    for (std::size_t i = 0; i < rows.size(); ++i) spreads[i].add(others[i]);
  }
  if (run_.tie_orders() == 0) return ok;
  for (std::size_t i = 0; i < rows.size(); ++i) spreads[i].write(rows[i]);
  return ok;
}

void SweepRun::note_ties() const {
  TieSummary ties;
  for (const Point& point : points_) {
    const auto spread_of = [](const Row& row) { return number_in(row, kTieSpread); };
    const std::vector<Row>& rows = point.outcome->rows;
    if (!rows.empty()) ties.add(*std::ranges::max_element(rows, {}, spread_of), point.key);
  }
  bench_.note("ties", ties.text(name_, run_.tie_orders()));
}

}  // namespace kernbench::benches
