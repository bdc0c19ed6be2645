#pragma once

#include <algorithm>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// A resource that serves one request at a time in order of arrival: a link, a DMA channel, a unit.
// It is passive: whoever arrives asks when it begins, and schedules what follows by itself.
class FifoServer {
 public:
  // Occupies the server for `duration` from the first moment it is free.  Returns that moment.
  // `counts`: it is part of busy().
  Time reserve(Time now, Time duration, bool counts = true) {
    const Time start = std::max(now, free_at_);
    free_at_ = start + duration;
    if (counts) busy_ += duration;
    return start;
  }

  // For how long it has served, until `now`, what counts.  As long as something is reserved beyond
  // `now` that does not count it is less than that.
  Time busy(Time now) const { return std::max(busy_ - std::max(free_at_ - now, Time{0}), Time{0}); }

  // Forgets what was reserved beyond `now`: the end of a run that failed.
  void release(Time now) {
    busy_ = busy(now);
    free_at_ = std::min(free_at_, now);
  }

 private:
  Time free_at_{0};
  Time busy_{0};  // with what is reserved
};

}  // namespace kernbench::sim
