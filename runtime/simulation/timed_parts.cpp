#include "runtime/simulation/timed_parts.h"

#include <algorithm>
#include <utility>

namespace kernbench::runtime {

Time sum_durations(std::span<const TimedPart> parts) {
  Time sum{0};
  for (const TimedPart& part : parts) sum += part.duration();
  return sum;
}

void TimedParts::add(TimedPart part) {
  if (part.to <= part.from) return;
  const auto first = std::ranges::upper_bound(all_, part.from, {}, &TimedPart::to);
  auto last = first;
  for (; last != all_.end() && last->from < part.to; ++last) {
    if (last->from <= part.from) part.name = last->name;
    part.from = std::min(part.from, last->from);
    if (last->to <= part.to) continue;
    part.to = last->to;
    part.known_at = last->known_at;
    part.work_until = last->work_until;
  }
  all_.insert(all_.erase(first, last), std::move(part));
}

}  // namespace kernbench::runtime
