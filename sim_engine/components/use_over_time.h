// Records how long each of many units was busy in each interval of a run.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// The stretches of a run are equally long and at most kStretches: as the run goes on, two become
// one.
class UseOverTime {
 public:
  static constexpr std::size_t kStretches = 128;

  explicit UseOverTime(std::size_t unit_count) : busy_(unit_count) {}

  // The unit is busy from `start` on.
  void add(std::size_t unit, Time start, Time busy);

  Time stretch() const { return stretch_; }
  // By stretch, from the beginning of the run on; empty if the unit was never busy.
  std::span<const Time> of(std::size_t unit) const { return busy_[unit]; }

 private:
  void join_pairs();

  Time stretch_{1024};
  std::vector<std::vector<Time>> busy_;  // by unit and stretch
};

}  // namespace kernbench::sim
