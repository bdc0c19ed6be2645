// Why events happened when they did: each keeps its last-arriving cause, so that the critical path
// of a run is known exactly (ADR-0204).
//
// An event is scheduled by what had to happen last before it, since whatever comes earlier only
// counts down or waits.  So its cause is the event that runs when it is scheduled, or one that is
// noted in a component where that works ahead of time: a transfer's, the clock of a PE_CPU's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// What passes between a cause and what it causes.
enum class Cause : std::uint8_t {
  host,     // the host issues a launch or a collective
  launch,   // a launch, or the news of its end, is on its way
  issue,    // a PE_CPU issues commands, a PE_SCHEDULER hands one to its unit
  busy,     // a unit of the PE serves others
  compute,  // PE_MATH or PE_GEMM computes
  dma,      // PE_DMA sets up a descriptor, PE_MMU translates, PE_IPCQ pushes or pops
  queue,    // a link serves others
  latency,  // of links
  bytes,    // over the slowest link
  hbm,      // latency of HBM, or bytes where its port is the slowest link
  credit,   // a credit, or the news of a posted receive, is on its way back
  poll,     // until an end of a queue, or a rank, looks again
  tcm,      // operands and results of PE_MATH or PE_GEMM, whose ports are slower than it computes
  other
};

inline constexpr std::size_t kCauseCount = 14;

// "host issue", "launch", ...
std::string_view name_of(Cause cause);

class CauseLog {
 public:
  // A moment with a reason.
  enum class Id : std::uint32_t { begin = 0 };

  explicit CauseLog(Time begin) : moments_{{begin, Id::begin, 0}} {}

  // What happens now.
  Id current() const { return current_; }
  void set_current(Id id) { current_ = id; }

  // The moment `at`, for which `why` was still needed after `cause`; `cause` itself if it is no
  // earlier.  `place` is the link for queue, latency, bytes and hbm, else the PE, by their numbers.
  Id add(Id cause, Time at, Cause why, std::uint32_t place = 0) {
    if (moments_[static_cast<std::size_t>(cause)].at >= at) return cause;
    moments_.push_back({at, cause, place << 8 | static_cast<std::uint32_t>(why)});
    return static_cast<Id>(moments_.size() - 1);
  }

  struct Edge {
    Cause why = Cause::other;
    std::uint32_t place = 0;
    Time start{0};
    Time end{0};
    Time length() const { return end - start; }
  };
  // The longest chain of causes from the beginning until now: its edges follow each other without a
  // gap.  Neighbours of one kind at one place are one edge.
  std::vector<Edge> critical_path(Time now) const;

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
