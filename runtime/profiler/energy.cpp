#include "runtime/profiler/energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runtime/simulation/simulation.h"
#include "runtime/simulation/timed_parts.h"
#include "sim_engine/components/work_log.h"

namespace kernbench::runtime {

namespace {

// A part begins with all that is asked for at its first instant, unless another one ends there.
sim::WorkSums sum_work(const sim::WorkLog& work, const std::vector<TimedPart>& parts) {
  if (parts.empty()) return work.sums();
  sim::WorkSums sums{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool follows = i > 0 && parts[i - 1].to == parts[i].from;
    const sim::WorkSums before =
        follows ? parts[i - 1].work_until : work.sums_before(parts[i].from);
    for (std::size_t unit = 0; unit < sums.size(); ++unit) {
      sums[unit] += parts[i].work_until[unit] - before[unit];
    }
  }
  return sums;
}

// "0.25 pJ/FLOP", "3.9 pJ/bit": the mean, where systems differ.
std::string text_of_each(EnergyUnit unit, const UnitEnergy& energy) {
  const bool of_operations = counts_operations(unit);
  const double pieces = static_cast<double>(energy.amount) * (of_operations ? 1 : 8);
  return fmt::format("{:.4g} {}", static_cast<double>(energy.femtojoules) / pieces / 1e3,
                     of_operations ? "pJ/FLOP" : "pJ/bit");
}

}  // namespace

double to_microjoules(Wide femtojoules) {
  return static_cast<double>(femtojoules) / 1e9;
}

bool EnergyUse::is_counted() const {
  return std::ranges::any_of(units, &UnitEnergy::is_counted);
}

Wide EnergyUse::femtojoules() const {
  Wide sum = 0;
  for (const UnitEnergy& unit : units) sum += unit.femtojoules;
  return sum;
}

std::optional<double> EnergyUse::watts() const {
  if (time == Time{0}) return std::nullopt;
  constexpr double kMillijoulesPerSecond = 1e-3;  // a femtojoule per picosecond
  return static_cast<double>(femtojoules()) / static_cast<double>(time.count()) *
         kMillijoulesPerSecond;
}

EnergyUse& EnergyUse::operator+=(const EnergyUse& other) {
  for (const EnergyUnit unit : kEnergyUnits) {
    UnitEnergy& own = of(unit);
    own.is_counted = own.is_counted || other.of(unit).is_counted;
    own.amount += other.of(unit).amount;
    own.femtojoules += other.of(unit).femtojoules;
  }
  time += other.time;
  return *this;
}

EnergyUse& EnergyUse::operator-=(const EnergyUse& earlier) {
  for (const EnergyUnit unit : kEnergyUnits) {
    of(unit).amount -= earlier.of(unit).amount;
    of(unit).femtojoules -= earlier.of(unit).femtojoules;
  }
  time -= earlier.time;
  return *this;
}

EnergyUse measure_energy(const Simulation& simulation) {
  EnergyUse energy;
  const sim::WorkLog* const work = simulation.machine().work();
  if (work == nullptr) return energy;
  energy.time = simulation.timed();
  const sim::WorkSums sums = sum_work(*work, simulation.timed_parts());
  for (const EnergyUnit unit : kEnergyUnits) {
    const std::int64_t each = simulation.topology().energy[unit];
    if (each == 0) continue;
    const std::int64_t amount = sums[static_cast<std::size_t>(unit)];
    energy.of(unit) = {true, amount, Wide{amount} * each};
  }
  return energy;
}

std::string energy_table(const EnergyUse& energy) {
  const Wide all = energy.femtojoules();
  std::string text = fmt::format("{:<9} {:>24} {:>14} {:>14} {:>7}\n", "unit", "work", "each",
                                 "energy uJ", "share");
  for (const EnergyUnit unit : kEnergyUnits) {
    const UnitEnergy& one = energy.of(unit);
    if (one.amount == 0) continue;
    const double share =
        all == 0 ? 0 : 100 * static_cast<double>(one.femtojoules) / static_cast<double>(all);
    text += fmt::format("{:<9} {:>24} {:>14} {:>14.3f} {:>5.1f} %\n", name_of(unit),
                        fmt::format("{} {}", one.amount, counts_operations(unit) ? "FLOP" : "B"),
                        text_of_each(unit, one), to_microjoules(one.femtojoules), share);
  }
  const std::optional<double> watts = energy.watts();
  return text + fmt::format("{:.3f} uJ in {:.3f} us{}\n", to_microjoules(all),
                            to_ns(energy.time) / 1e3,
                            watts ? fmt::format(", {:.3f} W on average", *watts) : "");
}

}  // namespace kernbench::runtime
