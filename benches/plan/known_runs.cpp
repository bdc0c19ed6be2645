#include "benches/plan/known_runs.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "benches/bench/cell.h"

namespace kernbench::benches::plan {

bool KnownRuns::holds_for_larger_caps(std::size_t place) const {
  if (place >= rows_.size()) return false;  // not run yet
  const Cell* const cell = rows_[place].find("are_below_cap");
  const bool* const holds = cell == nullptr ? nullptr : std::get_if<bool>(cell);
  return holds != nullptr && *holds;
}

std::size_t KnownRuns::want(const RunName& name, Sweep::PointFunction simulate) {
  std::vector<OfCap>& alike = places_[name.without_cap];
  for (const OfCap& of : alike) {
    if (of.cap == name.cap || (of.cap < name.cap && holds_for_larger_caps(of.place))) {
      return of.place;
    }
  }
  alike.push_back({name.cap, rows_.size() + wanted_.size()});
  wanted_.push_back({name.text, std::move(simulate)});
  return alike.back().place;
}

void KnownRuns::run(const std::string& sweep_name) {
  if (wanted_.empty()) return;
  Sweep sweep(bench_, sweep_name);
  for (Wanted& each : std::exchange(wanted_, {})) {
    sweep.add(std::move(each.text), std::move(each.simulate));
  }
  std::ranges::move(sweep.run(), std::back_inserter(rows_));
}

}  // namespace kernbench::benches::plan
