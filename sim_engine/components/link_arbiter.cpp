#include "sim_engine/components/link_arbiter.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::sim {

void LinkArbiter::occupy(Entry entry, Time start) {
  entry.end = start + entry.busy;
  anchor_ = start;
  under_way_.push_back(entry);
}

void* LinkArbiter::take_ended(Time now) {
  if (under_way_.empty() || under_way_.back().end > now) return nullptr;
  anchor_ = under_way_.back().end;
  void* const who = under_way_.back().who;
  under_way_.pop_back();
  return who;
}

bool LinkArbiter::is_waited_for() const {
  return std::ranges::any_of(waiting_, [](const auto& queue) { return !queue.empty(); });
}

bool LinkArbiter::is_waited_for_below(std::size_t priority) const {
  return std::any_of(waiting_.begin() + static_cast<std::ptrdiff_t>(priority) + 1, waiting_.end(),
                     [](const auto& queue) { return !queue.empty(); });
}

// True if its next transfer may follow the one of its priority that ends now.
bool LinkArbiter::continues_turn(std::size_t priority, Time now) const {
  const Turn& turn = turns_[priority];
  return turn.end == now && turn.length + waiting_[priority].front().busy <= packet_;
}

// When a transfer of this priority may begin, as things are.
Time LinkArbiter::earliest(std::size_t priority, Time now) const {
  const bool is_on_link = !under_way_.empty() && index(under_way_.back().priority) <= priority;
  if (!is_on_link && continues_turn(priority, now)) return now;
  const Time wanted = std::max(now, turns_[priority].next);
  if (under_way_.empty()) return is_waited_for_below(priority) ? wanted : now;
  const Entry& last = under_way_.back();
  if (is_on_link) return last.end;
  // The packet that begins at the anchor always passes.
  const std::int64_t packets =
      std::max<std::int64_t>(ceil_divide((wanted - anchor_).count(), packet_.count()), 1);
  return std::min(anchor_ + packets * packet_, last.end);
}

void* LinkArbiter::begin_next(Time now) {
  next_decision_ = Time::max();
  for (std::size_t priority = 0; priority < kPriorityCount; ++priority) {
    if (waiting_[priority].empty()) continue;
    const Time begin = earliest(priority, now);
    next_decision_ = std::min(next_decision_, begin);
    if (begin > now) continue;
    const bool continues = continues_turn(priority, now);
    Entry next = waiting_[priority].front();
    waiting_[priority].pop_front();
    next.end = now + next.busy;
    for (Entry& entry : under_way_) {
      entry.end += next.busy;
      turns_[index(entry.priority)].end = entry.end;
      turns_[index(entry.priority)].next += next.busy;
    }
    Turn& turn = turns_[priority];
    turn.length = next.busy + (continues ? turn.length : Time{0});
    turn.end = next.end;
    if (!under_way_.empty() || is_waited_for_below(priority)) turn.next = turn.end + turn.length;
    under_way_.push_back(next);
    anchor_ = now;
    return next.who;
  }
  return nullptr;
}

}  // namespace kernbench::sim
