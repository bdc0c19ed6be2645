// Why events happened when they did: each keeps its last-arriving cause, so that the critical path
// of a run is known exactly (ADR-0203).
//
// An event is scheduled by what had to happen last before it, since whatever comes earlier only
// counts down or waits.  Its cause is therefore the event that runs when it is scheduled.  A
// component that works ahead of time notes the cause itself: a transfer does, and the clock of a
// PE_CPU.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/core/cause.h"

namespace kernbench::sim {

class CauseLog {
 public:
  using Id = CauseId;

  explicit CauseLog(Time begin) : moments_{{begin, Id::begin, 0}} {}

  // The event that runs now.
  Id current() const { return current_; }
  void set_current(Id id) { current_ = id; }

  // The moment `at`, for which `why` was still needed after `cause`; `cause` itself if it is no
  // earlier.  `place` is the link for queue, latency, bytes and hbm, else the PE, by their numbers.
  Id add(Id cause, Time at, Cause why, std::uint32_t place = 0) {
    if (moments_[static_cast<std::size_t>(cause)].at >= at) return cause;
    moments_.push_back({at, cause, place << 8 | static_cast<std::uint32_t>(why)});
    return static_cast<Id>(moments_.size() - 1);
  }

  using Edge = CauseEdge;
  // Returns the part of the longest chain of causes that lies in [from, to), as it is known at the
  // event `last`: its edges follow each other without a gap.  Neighbours of one kind at one place
  // are one edge.  REQUIRES: `last` is not before `to`
  std::vector<Edge> critical_path(Id last, Time from, Time to) const;

 private:
  struct Moment {
    Time at{0};
    Id cause = Id::begin;
    std::uint32_t what = 0;  // the place, and in the lowest 8 bits why

    Cause why() const { return static_cast<Cause>(what & 0xff); }
    std::uint32_t place() const { return what >> 8; }
  };

  std::vector<Moment> moments_;
  Id current_ = Id::begin;
};

}  // namespace kernbench::sim
