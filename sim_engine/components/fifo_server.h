#pragma once

#include <algorithm>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// A resource that serves one request at a time in order of arrival: a link, a DMA channel, a unit.
// It is passive: the requester asks when its service begins, and schedules what follows itself.
class FifoServer {
 public:
  // Occupies the server for `duration` from the first moment it is free.  Returns that moment.
  // If `counts`, the duration is part of busy().
  Time reserve(Time now, Time duration, bool counts = true) {
    const Time start = next_start(now);
    free_at_ = start + duration;
    if (counts) busy_ += duration;
    return start;
  }

  // Lets the present work end so much later, or earlier.
  void prolong(Time more, bool counts) {
    free_at_ += more;
    if (counts) busy_ += more;
  }

  // The time at which a request that comes at `now` would be served.
  Time next_start(Time now) const { return std::max(now, free_at_); }

  // The time until `now` spent on requests that count.  While a reservation that does not count
  // reaches beyond `now`, the result is too small by up to that part.
  Time busy(Time now) const { return std::max(busy_ - std::max(free_at_ - now, Time{0}), Time{0}); }

  // Drops reservations beyond `now`, after a run that failed.
  void release(Time now) {
    busy_ = busy(now);
    free_at_ = std::min(free_at_, now);
  }

 private:
  Time free_at_{0};
  Time busy_{0};  // includes reservations beyond now
};

}  // namespace kernbench::sim
