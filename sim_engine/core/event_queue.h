// The future-event list: events in order of time, equal times in order of insertion (or drawn at
// random, to find what depends on that order).
//
// Simulated times are lattice-like: few distinct latencies, many ties.  Events are therefore kept
// in bins of equal time, each a first-in first-out list.  A direct-mapped table finds the bin of a
// time that was used lately; a miss opens another bin for the same time, which is right because
// bins of equal time are emptied in the order in which they were opened and only the youngest is
// appended to.  A bin's entry in the table needs no removal: it can only be asked for times after
// now.  Events whose time is the present time go to a lane that needs neither table nor wheel.
//
// Bins wait in a hierarchical timing wheel (Varghese and Lauck): a time is a number of eight
// digits to the base 256, and a bin lies on the level of the highest digit in which its time
// differs from now, in the slot of that digit.  The earliest bins are those in the first slot of
// the lowest level in use.  When now reaches a slot, its other bins move to lower levels; a bin
// moves at most once per level, and mostly not at all, so the cost does not grow with the number of
// bins.
//
// Nothing is allocated once the slabs have grown to the number of pending events.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// An event calls function(object, argument).
using EventFunction = void (*)(void* object, std::uint64_t argument);

struct Event {
  EventFunction function = nullptr;
  void* object = nullptr;
  std::uint64_t argument = 0;
};

// Names an event as long as it is pending.
enum class EventHandle : std::uint32_t {};

// Decides which of several events that are due comes next, so that orders can be explored.
class TieChooser {
 public:
  struct Due {
    const Event* event = nullptr;
    // Equal in all orders: it comes of the event that has pushed this one, and of how many that had
    // pushed before.
    std::uint64_t name = 0;
    std::uint32_t pushed_by = 0;  // the number of that choice, from 1; 0: none
  };

  // Returns which of the events happens now; they are in the usual order.  It is called for a
  // single one too.  What it throws leaves EventQueue::pop().
  virtual std::size_t choose(std::span<const Due> due) = 0;

 protected:
  ~TieChooser() = default;
};

class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // The time of the event that was popped last.
  Time now() const { return Time{now_}; }

  // The time of the next event, or earlier if one was cancelled.  REQUIRES: !empty()
  Time next_time() const;

  // `cause` is given back when the event is popped.  REQUIRES: time >= now()
  EventHandle push(Time time, const Event& event, std::uint32_t cause = 0);

  // Pushes an event for now(), which is popped when no other event of that time is left.
  EventHandle push_last(const Event& event, std::uint32_t cause = 0);

  // Pushes an event that is popped when nothing else is left, at any time: it waits for all that
  // others of its kind have caused, too.  A chooser knows it by `name`, whatever pushes it.  It has
  // no cause, and cannot be cancelled.  REQUIRES: no other that is pending has the name
  void push_at_standstill(const Event& event, std::uint64_t name);
  // True if nothing else is left.
  bool is_at_standstill() const {
    return standstill_.head != kNone && current_.head == kNone && lane_.head == kNone &&
           last_.head == kNone && due_.empty() && used_levels_ == 0;
  }

  // Drops a pending event: it never happens, and now() does not stop at its time for it.
  // REQUIRES: it is pending
  void cancel(EventHandle handle) {
    Event& event = node(static_cast<std::uint32_t>(handle)).event;
    event.function = &cancelled;
    --size_;
  }

  // Removes the earliest event, of equal times the first pushed, and moves now() to its time.
  // REQUIRES: !empty()
  Event pop();
  // The cause of the event that was popped last.
  std::uint32_t popped_cause() const { return popped_cause_; }

  // Makes pop() take any of the earliest events from now on, drawn at random.  Such an order is as
  // legal as that of insertion, for what an event pushes still comes after it.  Equal seeds draw
  // equally.
  void shuffle_ties(std::uint64_t seed);
  // Lets `chooser` decide from now on.  If it always takes the first event, the order is the usual
  // one.  REQUIRES: the queue is empty, and the chooser outlives it
  void choose_ties(TieChooser& chooser) { chooser_ = &chooser; }

  // Drops all events; now() stays.
  void clear();

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kTableSize = 1024;  // power of two; direct-mapped

  // An event; the first of a bin also holds what concerns the bin.
  struct alignas(64) Node {
    Event event;
    std::uint32_t next = kNone;  // in its bin, or the next free one
    std::uint32_t cause = 0;
    std::int64_t time = 0;
    std::uint32_t last = kNone;      // in the bin
    std::uint32_t next_bin = kNone;  // in the slot
    std::uint32_t pushed_by = 0;     // for the chooser, as is its name
    std::uint64_t name = 0;
  };
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  struct TableEntry {
    std::int64_t time = -1;
    std::uint32_t bin = kNone;
  };
  static constexpr int kDigitBits = 8;
  static constexpr unsigned kSlots = 1U << kDigitBits;
  static constexpr int kLevels = 8;
  struct Level {
    std::array<std::uint64_t, kSlots / 64> used{};  // a bit for each slot that holds bins
    std::array<List, kSlots> slots;  // of bins, in the order in which they were opened
  };
  struct Slot {
    std::size_t level;
    std::size_t digit;
  };

  static std::size_t entry_of(std::int64_t time) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
    return (static_cast<std::uint64_t>(time) * kGolden) >> 54;  // log2(2^64 / kTableSize)
  }

  void append(List& list, std::uint32_t index) {
    if (list.tail == kNone) {
      list.head = index;
    } else {
      node(list.tail).next = index;
    }
    list.tail = index;
  }
  static void cancelled(void*, std::uint64_t) {}
  [[noreturn]] void refuse(std::int64_t time) const;
  // As nodes_[index], unchecked: an index comes from a list of nodes.
  Node& node(std::uint32_t index) { return nodes_.data()[index]; }
  const Node& node(std::uint32_t index) const { return nodes_.data()[index]; }
  std::uint32_t make_node(const Event& event, std::uint32_t cause);
  void put_in_wheel(std::uint32_t bin);
  Slot first_slot() const;
  std::int64_t first_time_in(const Slot& slot) const;
  void advance();
  void find_due();
  void draw_due();
  void choose_due();
  bool gather_due();
  void name_for_chooser(Node& node);

  std::int64_t now_ = 0;
  std::size_t size_ = 0;
  std::uint32_t popped_cause_ = 0;
  List current_;  // events of the bins being emptied, all at now_
  List lane_;     // events pushed for now_ while it is now
  List last_;     // events pushed for the end of now_
  List standstill_;  // events that wait until nothing else is left
  std::vector<Node> nodes_;
  std::uint32_t free_node_ = kNone;
  TieChooser* chooser_ = nullptr;
  std::uint32_t used_levels_ = 0;  // a bit for each level that holds bins
  std::array<Level, kLevels> levels_;
  std::array<TableEntry, kTableSize> table_;
  bool shuffles_ = false;
  std::uint64_t draws_ = 0;         // the state of what draws
  std::vector<std::uint32_t> due_;  // events at now_, if ties are shuffled or chosen
  std::vector<TieChooser::Due> offered_;
  std::uint32_t choices_ = 0;  // made so far
  std::uint64_t chosen_ = 0;   // the name of the last one
  std::uint64_t pushed_ = 0;   // by that event
};

inline std::uint32_t EventQueue::make_node(const Event& event, std::uint32_t cause) {
  std::uint32_t index = free_node_;
  if (index != kNone) {
    free_node_ = node(index).next;
  } else {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  Node& made = node(index);
  made.event = event;
  made.next = kNone;
  made.cause = cause;
  if (chooser_ != nullptr) [[unlikely]]
    name_for_chooser(made);
  return index;
}

inline EventHandle EventQueue::push(Time time, const Event& event, std::uint32_t cause) {
  const std::int64_t at = time.count();
  if (at < now_) [[unlikely]]
    refuse(at);
  const std::uint32_t index = make_node(event, cause);
  ++size_;
  if (at == now_) {
    append(lane_, index);
    return EventHandle{index};
  }
  TableEntry& entry = table_[entry_of(at)];
  if (entry.time == at) {
    Node& bin = node(entry.bin);
    node(bin.last).next = index;
    bin.last = index;
    return EventHandle{index};
  }
  entry = {at, index};
  Node& bin = node(index);
  bin.time = at;
  bin.last = index;
  put_in_wheel(index);
  return EventHandle{index};
}

inline Event EventQueue::pop() {
  for (;;) {
    if (current_.head == kNone) advance();
    const std::uint32_t index = current_.head;
    Node& next = node(index);
    current_.head = next.next;
    if (current_.head == kNone) current_.tail = kNone;
    next.next = free_node_;
    free_node_ = index;
    if (next.event.function == &cancelled) [[unlikely]]
      continue;
    --size_;
    popped_cause_ = next.cause;
    return next.event;
  }
}

}  // namespace kernbench::sim
