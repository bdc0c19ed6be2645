#include "sim_engine/core/event_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

void EventQueue::refuse(std::int64_t time) const {
  check_failed(__FILE__, __LINE__, "time >= now",
               fmt::format("event at {} ps, but it is {} ps", time, now_));
}

std::uint32_t EventQueue::open_bin(std::int64_t time) {
  std::uint32_t index = free_bin_;
  if (index != kNone) {
    free_bin_ = bins_[index].next_free;
    bins_[index] = {};
  } else {
    index = static_cast<std::uint32_t>(bins_.size());
    bins_.emplace_back();
  }
  if (next_opened_ == kNone) renumber_bins();
  heap_push({time, next_opened_++, index});
  return index;
}

// Renumbers the bins from 0 in their order.  The sorted array is again a heap.
void EventQueue::renumber_bins() {
  std::ranges::sort(heap_, earlier);
  next_opened_ = 0;
  for (HeapEntry& entry : heap_) entry.opened = next_opened_++;
}

// Finds the next events to run: the older bins of now, then the lane, then the next time.
void EventQueue::advance() {
  KB_CHECK(size_ > 0, "pop from an empty event queue");
  const bool bin_is_due = !heap_.empty() && (heap_.front().time == now_ || lane_.head == kNone);
  if (!bin_is_due) {
    current_ = std::exchange(lane_, {});
    return;
  }
  const HeapEntry first = heap_pop();
  KB_CHECK(first.time >= now_, "time runs backwards: {} to {} ps", now_, first.time);
  now_ = first.time;
  current_ = bins_[first.bin].events;
  bins_[first.bin].next_free = free_bin_;
  free_bin_ = first.bin;
}

void EventQueue::heap_push(HeapEntry entry) {
  std::size_t hole = heap_.size();
  heap_.push_back(entry);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / 4;
    if (!earlier(entry, heap_[parent])) break;
    heap_[hole] = heap_[parent];
    hole = parent;
  }
  heap_[hole] = entry;
}

// Removes the first entry: its hole moves down to where the last entry belongs.  Each entry has
// four children.
EventQueue::HeapEntry EventQueue::heap_pop() {
  const HeapEntry first = heap_.front();
  const HeapEntry last = heap_.back();
  heap_.pop_back();
  const std::size_t count = heap_.size();
  if (count == 0) return first;
  std::size_t hole = 0;
  for (;;) {
    const std::size_t child = 4 * hole + 1;
    if (child >= count) break;
    std::size_t least = child;
    for (std::size_t other = child + 1; other < std::min(child + 4, count); ++other) {
      least = earlier(heap_[other], heap_[least]) ? other : least;
    }
    if (!earlier(heap_[least], last)) break;
    heap_[hole] = heap_[least];
    hole = least;
  }
  heap_[hole] = last;
  return first;
}

void EventQueue::clear() {
  size_ = 0;
  current_ = {};
  lane_ = {};
  nodes_.clear();
  free_node_ = kNone;
  bins_.clear();
  free_bin_ = kNone;
  heap_.clear();
  table_.fill({});  // it may name bins of times to come
}

}  // namespace kernbench::sim
