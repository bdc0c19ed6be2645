#include "sim_engine/core/event_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "sim_engine/base/check.h"

namespace kernbench::sim {

void EventQueue::refuse(std::int64_t time) const {
  check_failed(__FILE__, __LINE__, "time >= now",
               fmt::format("event at {} ps, but it is {} ps", time, now_));
}

// REQUIRES: the bin's time is after now
void EventQueue::put_in_wheel(std::uint32_t bin) {
  const std::int64_t time = node(bin).time;
  const auto difference = static_cast<std::uint64_t>(time ^ now_);
  const std::size_t level = (static_cast<std::size_t>(std::bit_width(difference)) - 1) / kDigitBits;
  const std::size_t digit = static_cast<std::size_t>(time >> (level * kDigitBits)) % kSlots;
  Level& wheel = levels_[level];
  List& slot = wheel.slots[digit];
  node(bin).next_bin = kNone;
  (slot.head == kNone ? slot.head : node(slot.tail).next_bin) = bin;
  slot.tail = bin;
  wheel.used[digit / 64] |= std::uint64_t{1} << digit % 64;
  used_levels_ |= 1U << level;
}

// The slot of the earliest bins.  REQUIRES: there are some
EventQueue::Slot EventQueue::first_slot() const {
  const auto level = static_cast<std::size_t>(std::countr_zero(used_levels_));
  const auto& used = levels_[level].used;
  std::size_t word = 0;
  while (used[word] == 0) ++word;
  return {level, 64 * word + static_cast<std::size_t>(std::countr_zero(used[word]))};
}

std::int64_t EventQueue::first_time_in(const Slot& slot) const {
  std::uint32_t bin = levels_[slot.level].slots[slot.digit].head;
  std::int64_t first = node(bin).time;
  while ((bin = node(bin).next_bin) != kNone) first = std::min(first, node(bin).time);
  return first;
}

Time EventQueue::next_time() const {
  const bool is_due_now = current_.head != kNone || lane_.head != kNone || last_.head != kNone ||
                          !due_.empty() || used_levels_ == 0;
  return Time{is_due_now ? now_ : first_time_in(first_slot())};
}

void EventQueue::advance() {
  if (chooser_ != nullptr) return choose_due();
  shuffles_ ? draw_due() : find_due();
}

EventHandle EventQueue::push_last(const Event& event, std::uint32_t cause) {
  if (shuffles_) return push(now(), event, cause);
  const std::uint32_t index = make_node(event, cause);
  ++size_;
  append(last_, index);
  return EventHandle{index};
}

void EventQueue::push_at_standstill(const Event& event, std::uint64_t name) {
  const std::uint64_t pushed = pushed_;
  const std::uint32_t index = make_node(event, 0);
  node(index).name = name;
  pushed_ = pushed;  // names of other events do not depend on this one
  ++size_;
  append(standstill_, index);
}

void EventQueue::shuffle_ties(std::uint64_t seed) {
  shuffles_ = true;
  draws_ = seed;
}

// Chooses the next event to run from all that are due (SplitMix64).
void EventQueue::draw_due() {
  if (lane_.head != kNone || due_.empty()) {
    find_due();
    for (std::uint32_t i = current_.head; i != kNone; i = node(i).next) due_.push_back(i);
  }
  std::uint64_t drawn = draws_ += 0x9e3779b97f4a7c15;
  drawn = (drawn ^ drawn >> 30) * 0xbf58476d1ce4e5b9;
  drawn = (drawn ^ drawn >> 27) * 0x94d049bb133111eb;
  std::swap(due_[(drawn ^ drawn >> 31) % due_.size()], due_.back());
  current_ = {due_.back(), due_.back()};
  nodes_[due_.back()].next = kNone;
  due_.pop_back();
}

// An event's name is a hash of its ancestry, which no order changes (SplitMix64's mixing).
void EventQueue::name_for_chooser(Node& node) {
  std::uint64_t mixed = chosen_ + ++pushed_ * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  node.name = mixed ^ mixed >> 31;
  node.pushed_by = choices_;
}

// Gathers the events that may run next in due_.  Returns true if they have waited for a standstill.
bool EventQueue::gather_due() {
  bool at_standstill = false;
  do {
    if (lane_.head != kNone || due_.empty()) {
      at_standstill = is_at_standstill();
      at_standstill ? std::swap(current_, standstill_) : find_due();
      for (std::uint32_t i = current_.head; i != kNone; i = node(i).next) due_.push_back(i);
      current_ = {};
    }
    std::erase_if(due_, [&](std::uint32_t index) {
      if (node(index).event.function != &cancelled) return false;
      node(index).next = std::exchange(free_node_, index);
      return true;
    });
  } while (due_.empty());
  return at_standstill;
}

// Asks the chooser for the next event to run.  The events that are left keep their order.
void EventQueue::choose_due() {
  const bool at_standstill = gather_due();
  offered_.clear();
  for (const std::uint32_t index : due_) {
    const Node& due = node(index);
    offered_.push_back({&due.event, due.name, due.pushed_by});
  }
  const auto at = due_.begin() + static_cast<std::ptrdiff_t>(chooser_->choose(offered_));
  current_ = {*at, *at};
  node(*at).next = kNone;
  chosen_ = node(*at).name;
  pushed_ = 0;
  ++choices_;
  due_.erase(at);
  if (!at_standstill) return;
  for (const std::uint32_t index : std::exchange(due_, {})) {
    node(index).next = kNone;
    append(standstill_, index);
  }
}

// Finds the next events to run: the lane, then the bins of the next time, then one that has waited
// for a standstill.
void EventQueue::find_due() {
  KB_CHECK(size_ > 0, "pop from an empty event queue");
  if (lane_.head != kNone) {
    current_ = std::exchange(lane_, {});
    return;
  }
  if (last_.head != kNone) {
    current_ = std::exchange(last_, {});
    return;
  }
  if (used_levels_ == 0) {
    const std::uint32_t index = standstill_.head;
    standstill_.head = node(index).next;
    if (standstill_.head == kNone) standstill_.tail = kNone;
    node(index).next = kNone;
    current_ = {index, index};
    return;
  }
  const Slot first = first_slot();
  Level& wheel = levels_[first.level];
  std::uint32_t bin = wheel.slots[first.digit].head;
  const std::int64_t time = node(bin).next_bin == kNone ? node(bin).time : first_time_in(first);
  KB_CHECK(time > now_, "time runs backwards: {} to {} ps", now_, time);
  now_ = time;
  wheel.slots[first.digit] = {};
  wheel.used[first.digit / 64] &= ~(std::uint64_t{1} << first.digit % 64);
  static_assert(std::tuple_size_v<decltype(wheel.used)> == 4);
  if ((wheel.used[0] | wheel.used[1] | wheel.used[2] | wheel.used[3]) == 0) {
    used_levels_ &= used_levels_ - 1;
  }
  while (bin != kNone) {
    const std::uint32_t next = node(bin).next_bin;
    if (node(bin).time == time) {
      (current_.head == kNone ? current_.head : node(current_.tail).next) = bin;
      current_.tail = node(bin).last;
    } else {
      put_in_wheel(bin);
    }
    bin = next;
  }
}

void EventQueue::clear() {
  size_ = 0;
  current_ = {};
  lane_ = {};
  last_ = {};
  standstill_ = {};
  due_.clear();
  nodes_.clear();
  free_node_ = kNone;
  used_levels_ = 0;
  levels_.fill({});
  table_.fill({});  // it may name bins of times to come
}

}  // namespace kernbench::sim
