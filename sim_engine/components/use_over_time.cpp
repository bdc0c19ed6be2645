#include "sim_engine/components/use_over_time.h"

#include <algorithm>

namespace kernbench::sim {

void UseOverTime::add(std::size_t unit, Time start, Time busy) {
  const Time end = start + busy;
  while (end > stretch_ * kStretches) join_pairs();
  std::vector<Time>& stretches = busy_[unit];
  if (stretches.empty()) stretches.resize(kStretches);
  for (Time at = start; at < end;) {
    const auto index = at / stretch_;
    const Time until = std::min(end, stretch_ * (index + 1));
    stretches[static_cast<std::size_t>(index)] += until - at;
    at = until;
  }
}

void UseOverTime::join_pairs() {
  stretch_ *= 2;
  for (std::vector<Time>& stretches : busy_) {
    if (stretches.empty()) continue;
    for (std::size_t i = 0; i < kStretches / 2; ++i) {
      stretches[i] = stretches[2 * i] + stretches[2 * i + 1];
    }
    std::fill(stretches.begin() + kStretches / 2, stretches.end(), Time{0});
  }
}

}  // namespace kernbench::sim
