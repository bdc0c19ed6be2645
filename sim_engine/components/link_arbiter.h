// The order in which transfers that meet on a link are served, packet by packet (ADR-0177).
//
// Models:      three priorities.  A transfer that arrives at a busy link waits; one of a higher
//              priority than that under way begins at the end of the packet that is on the link,
//              and what it interrupts goes on behind it.  Transfers of a priority are served in the
//              order of their arrival.
// Fairness:    a priority goes ahead of lower ones by turns, each of one transfer, or of several
//              that follow each other and are not longer than a packet in sum.  Then the link is
//              left to the lower ones for as long as the turn took: each priority has at least half
//              of what those above it leave.  A link that someone wants never rests.
// Not modeled: the size of a packet's header; a transfer that is shorter than a packet is one.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

enum class Priority : std::uint8_t {
  express,        // communication not longer than a packet, and launches
  communication,  // messages, and what collectives load and store
  bulk,           // what users' kernels load and store, and copies of the host
};
inline constexpr std::size_t kPriorityCount = 3;

class LinkArbiter {
 public:
  // A transfer at this link; `who` means something to the caller alone.
  struct Entry {
    void* who = nullptr;
    Priority priority = Priority::bulk;
    Time busy{0};  // how long it occupies the link
    Time end{0};   // once it has begun
  };

  // A packet occupies the link for `packet`, at least a picosecond.
  explicit LinkArbiter(Time packet) : packet_(packet > Time{0} ? packet : Time{1}) {}

  // The link has been at this transfer, and no other, since `start`.  REQUIRES: nothing is under
  // way
  void occupy(Entry entry, Time start);
  void add(const Entry& entry) { waiting_[index(entry.priority)].push_back(entry); }

  // Returns a transfer that has ended by `now` and was not returned before; nullptr if there is
  // none.
  void* take_ended(Time now);
  bool is_in_use() const { return !under_way_.empty() || is_waited_for(); }
  bool is_waited_for() const;

  // Calls retime(entry) for the next transfer of each priority, which may change its `busy`.
  template <class Retime>
  void for_each_next(const Retime& retime) {
    for (auto& queue : waiting_) {
      if (!queue.empty()) retime(queue.front());
    }
  }

  // Begins the transfer that is due now, and prolongs those that it interrupts; nullptr if none is
  // due, and then next_decision() is known.  REQUIRES: take_ended(now) is nullptr
  void* begin_next(Time now);
  // Returns the entries under way that the last one to begin has interrupted.
  std::span<const Entry> interrupted() const {
    return std::span<const Entry>(under_way_).first(under_way_.size() - 1);
  }
  // The time at which begin_next() must be called again; Time::max() if nobody waits.
  // REQUIRES: begin_next() has returned nullptr, and nobody has come since
  Time next_decision() const { return next_decision_; }

 private:
  static std::size_t index(Priority priority) { return static_cast<std::size_t>(priority); }
  Time earliest(std::size_t priority, Time now) const;
  bool is_waited_for_below(std::size_t priority) const;
  bool continues_turn(std::size_t priority, Time now) const;

  const Time packet_;
  Time next_decision_ = Time::max();
  Time anchor_{0};                // a packet of the last one under way begins here
  std::vector<Entry> under_way_;  // each has interrupted the one before it
  std::array<std::deque<Entry>, kPriorityCount> waiting_;
  // Each priority has its latest turn, and the time from which it may go ahead again.
  struct Turn {
    Time end{-1};
    Time length{0};
    Time next{0};
  };
  std::array<Turn, kPriorityCount> turns_;
};

}  // namespace kernbench::sim
