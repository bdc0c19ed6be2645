#pragma once

#include <algorithm>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

// Stretches of time that follow each other without touching.
class Intervals {
 public:
  struct Interval {
    Time start{0};
    Time end = Time::max();  // max(): it is not over

    friend bool operator==(const Interval&, const Interval&) = default;
  };

  // REQUIRES: no earlier time was passed.  The end of what began before is ignored.
  void begin(Time now) {
    if (!all_.empty() && all_.back().end == now) {
      all_.back().end = Time::max();
    } else {
      all_.push_back({now});
    }
  }
  void end(Time now) {
    if (all_.empty() || all_.back().end != Time::max()) return;
    all_.back().end = now;
    if (all_.back().start == now) all_.pop_back();
  }

  const std::vector<Interval>& all() const { return all_; }

  // The part of [from, to) that they cover.
  Time covered(Time from, Time to) const {
    Time sum{0};
    auto at = std::ranges::upper_bound(all_, from, {}, &Interval::end);
    for (; at != all_.end() && at->start < to; ++at) {
      sum += std::min(at->end, to) - std::max(at->start, from);
    }
    return sum;
  }

 private:
  std::vector<Interval> all_;
};

}  // namespace kernbench::runtime
