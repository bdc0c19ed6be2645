// The future-event list: events in order of time, equal times in order of insertion.
//
// Simulated times are lattice-like: few distinct latencies, many ties.  So events are kept in bins
// of equal time, each a first-in first-out list, and a heap orders the bins.  A direct-mapped table
// finds the bin of a time that was used lately; a miss opens another bin for the same time, which
// is right because bins of equal time are ordered by when they were opened and only the youngest is
// appended to.  A bin's entry in the table needs no removal: it can only be asked for times after
// now.  Events for now itself go to a lane that needs neither table nor heap.  Nothing is allocated
// once the slabs have grown to the number of pending events.

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// What happens at an event: function(object, argument).
using EventFunction = void (*)(void* object, std::uint64_t argument);

struct Event {
  EventFunction function = nullptr;
  void* object = nullptr;
  std::uint64_t argument = 0;
};

class EventQueue {
 public:
  // `bins_opened` is where the count that orders bins of equal time begins (for tests of its wrap).
  explicit EventQueue(std::uint32_t bins_opened = 0) : next_opened_(bins_opened) {}

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  // The time of the event that was popped last.
  Time now() const { return Time{now_}; }

  // The time of the next event.  REQUIRES: !empty()
  Time next_time() const {
    const bool is_due_now = current_.head != kNone || lane_.head != kNone;
    return Time{is_due_now ? now_ : heap_.front().time};
  }

  // REQUIRES: time >= now()
  void push(Time time, const Event& event);

  // Removes the earliest event, of equal times the first pushed, and moves now() to its time.
  // `sequence` receives the number of events that had been pushed before it.
  // REQUIRES: !empty()
  Event pop(std::uint32_t& sequence);

  // Drops all events; now() stays.
  void clear();

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::size_t kTableSize = 1024;  // power of two; direct-mapped

  struct Node {
    Event event;
    std::uint32_t sequence = 0;
    std::uint32_t next = kNone;
  };
  struct List {
    std::uint32_t head = kNone;
    std::uint32_t tail = kNone;
  };
  struct Bin {
    List events;
    std::uint32_t next_free = kNone;
  };
  struct TableEntry {
    std::int64_t time = -1;
    std::uint32_t bin = kNone;
  };
  struct HeapEntry {  // in the order of bins: time, then age
    std::int64_t time = 0;
    std::uint32_t opened = 0;
    std::uint32_t bin = 0;
  };

  static bool earlier(const HeapEntry& a, const HeapEntry& b) {
    __extension__ using Key = unsigned __int128;  // one branch-free comparison
    return (static_cast<Key>(static_cast<std::uint64_t>(a.time)) << 64 | a.opened) <
           (static_cast<Key>(static_cast<std::uint64_t>(b.time)) << 64 | b.opened);
  }
  static std::size_t slot_of(std::int64_t time) {
    constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
    return (static_cast<std::uint64_t>(time) * kGolden) >> 54;  // log2(2^64 / kTableSize)
  }

  void append(List& list, std::uint32_t node) {
    if (list.tail == kNone) {
      list.head = node;
    } else {
      nodes_[list.tail].next = node;
    }
    list.tail = node;
  }
  [[noreturn]] void refuse(std::int64_t time) const;
  std::uint32_t make_node(const Event& event);
  std::uint32_t open_bin(std::int64_t time);
  void renumber_bins();
  void advance();
  void heap_push(HeapEntry entry);
  HeapEntry heap_pop();

  std::int64_t now_ = 0;
  std::size_t size_ = 0;
  List current_;  // events of the bin being emptied, all at now_
  List lane_;     // events pushed for now_ while it is now
  std::vector<Node> nodes_;
  std::uint32_t free_node_ = kNone;
  std::vector<Bin> bins_;
  std::uint32_t free_bin_ = kNone;
  std::vector<HeapEntry> heap_;  // 4-ary
  std::array<TableEntry, kTableSize> table_;
  std::uint32_t next_sequence_ = 0;
  std::uint32_t next_opened_;
};

inline std::uint32_t EventQueue::make_node(const Event& event) {
  std::uint32_t index = free_node_;
  if (index != kNone) {
    free_node_ = nodes_[index].next;
  } else {
    index = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  }
  nodes_[index] = {event, next_sequence_++, kNone};
  return index;
}

inline void EventQueue::push(Time time, const Event& event) {
  const std::int64_t at = time.count();
  if (at < now_) [[unlikely]]
    refuse(at);
  const std::uint32_t node = make_node(event);
  ++size_;
  if (at == now_) {
    append(lane_, node);
    return;
  }
  TableEntry& entry = table_[slot_of(at)];
  if (entry.time != at) entry = {at, open_bin(at)};
  append(bins_[entry.bin].events, node);
}

inline Event EventQueue::pop(std::uint32_t& sequence) {
  if (current_.head == kNone) advance();
  const std::uint32_t index = current_.head;
  Node& node = nodes_[index];
  current_.head = node.next;
  if (current_.head == kNone) current_.tail = kNone;
  sequence = node.sequence;
  node.next = free_node_;
  free_node_ = index;
  --size_;
  return node.event;
}

}  // namespace kernbench::sim
