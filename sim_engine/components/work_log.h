// Records how much units have done by each moment of a run, for its energy: operations of arrays
// and bytes that pass ports and links (ADR-0268).  What is done counts at the moment at which it is
// asked for, so that the sums do not depend on how long it takes.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

// A sum for each unit.
using WorkSums = std::array<std::int64_t, kEnergyUnits.size()>;

class WorkLog {
 public:
  // REQUIRES: `now` is not before that of an earlier call for the unit; amount >= 0
  void add(EnergyUnit unit, Time now, std::int64_t amount);

  // The sums of all amounts so far, of those before a moment, and of those until it with what has
  // been done in it so far.
  WorkSums sums() const;
  WorkSums sums_before(Time time) const;
  WorkSums sums_until(Time time) const;

 private:
  struct Entry {
    Time at{0};
    std::int64_t sum = 0;  // with that of all entries before it
  };

  std::array<std::vector<Entry>, kEnergyUnits.size()> entries_;  // each in the order of time
};

}  // namespace kernbench::sim
