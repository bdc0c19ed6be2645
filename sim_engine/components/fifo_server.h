#pragma once

#include <algorithm>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// A resource that serves one request at a time in order of arrival: a link, a DMA channel, a unit.
// It is passive: whoever arrives asks when it begins, and schedules what follows by itself.
class FifoServer {
 public:
  // Occupies the server for `duration` from the first moment it is free.  Returns that moment.
  Time reserve(Time now, Time duration) {
    const Time start = std::max(now, free_at_);
    free_at_ = start + duration;
    return start;
  }

  // Forgets what was reserved beyond `now`: the end of a run that failed.
  void release(Time now) { free_at_ = std::min(free_at_, now); }

 private:
  Time free_at_{0};
};

}  // namespace kernbench::sim
