// The parts of a run whose time the program reports: a bench's rows, a step.  What comes before and
// between them, such as uploads and warm-up, is not what the program's user asked about, so that
// profiles speak of these parts alone (ADR-0203).

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/core/cause.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::runtime {

struct TimedPart {
  std::string name = {};  // "2048 B", "step"
  Time from{0};
  Time to{0};
  // The event at which the program learned that the part was over; only if causes are recorded.
  sim::CauseId known_at = sim::CauseId::begin;
  // The work that units had done by then; zeros unless it is counted.
  std::array<std::int64_t, kEnergyUnits.size()> work_until = {};

  Time duration() const { return to - from; }
};

// Sums the durations.
Time sum_durations(std::span<const TimedPart> parts);

class TimedParts {
 public:
  // Adds a part that has a name.  Parts that overlap become one, since ranks time the same work: it
  // has the name of the earliest, and is known to be over when the last is.
  void add(TimedPart part);

  // Returns the parts in their order in time.
  const std::vector<TimedPart>& all() const { return all_; }

 private:
  std::vector<TimedPart> all_;
};

}  // namespace kernbench::runtime
