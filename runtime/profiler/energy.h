// The energy of what a simulation has timed, by unit: the work that units have done, times what
// each piece of it takes by the topology (ADR-0268).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::runtime {

class Simulation;

struct UnitEnergy {
  bool is_counted = false;  // the topology says what it takes
  std::int64_t amount = 0;  // FLOPs or bytes
  Wide femtojoules = 0;

  friend bool operator==(const UnitEnergy&, const UnitEnergy&) = default;
};

struct EnergyUse {
  std::array<UnitEnergy, kEnergyUnits.size()> units = {};
  Time time{0};  // in which it was used

  UnitEnergy& of(EnergyUnit unit) { return units.at(static_cast<std::size_t>(unit)); }
  const UnitEnergy& of(EnergyUnit unit) const { return units.at(static_cast<std::size_t>(unit)); }
  bool is_counted() const;
  Wide femtojoules() const;
  // Returns the mean power in watts; nullopt in no time.
  std::optional<double> watts() const;

  EnergyUse& operator+=(const EnergyUse& other);
  // REQUIRES: `earlier` is a part of it
  EnergyUse& operator-=(const EnergyUse& earlier);

  friend bool operator==(const EnergyUse&, const EnergyUse&) = default;
};

double to_microjoules(Wide femtojoules);

// The energy of Simulation::timed_parts(), of the whole run if there is none.  Nothing is counted
// without RuntimeOptions::energy.
EnergyUse measure_energy(const Simulation& simulation);

// A line for each unit that has done something: its work, what each piece takes, the energy, the
// share.
std::string energy_table(const EnergyUse& energy);

}  // namespace kernbench::runtime
