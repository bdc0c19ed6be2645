// The cells of a row that say what energy its simulations have used, where it is asked for: all of
// it, the time in which it was used, the mean power, and the energy of each unit (ADR-0268).

#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "benches/bench/context_set.h"
#include "benches/bench/row.h"
#include "runtime/profiler/energy.h"

namespace kernbench::benches {

inline constexpr std::string_view kEnergyColumn = "energy_uj";

// Adds this energy.  Does nothing if none is counted.
void add_energy(Row& row, const runtime::EnergyUse& energy);
// Adds that of what the contexts have timed since the last row that took theirs.  Does nothing if
// the row has an energy already.
void add_energy(Row& row, ContextSet& contexts);

// Returns a row for each that has an energy: what tells it from the others, the time and the energy
// of it, without units that nothing has used.
std::vector<Row> energy_rows(std::span<const Row> rows);

}  // namespace kernbench::benches
