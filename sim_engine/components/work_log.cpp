#include "sim_engine/components/work_log.h"

#include <algorithm>

namespace kernbench::sim {

void WorkLog::add(EnergyUnit unit, Time now, std::int64_t amount) {
  if (amount == 0) return;
  std::vector<Entry>& entries = entries_[static_cast<std::size_t>(unit)];
  const std::int64_t sum = (entries.empty() ? 0 : entries.back().sum) + amount;
  if (!entries.empty() && entries.back().at == now) {
    entries.back().sum = sum;
  } else {
    entries.push_back({now, sum});
  }
}

WorkSums WorkLog::sums() const {
  return sums_until(Time::max());
}

WorkSums WorkLog::sums_before(Time time) const {
  return sums_until(time - Time{1});
}

WorkSums WorkLog::sums_until(Time time) const {
  WorkSums sums{};
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto next = std::ranges::upper_bound(entries_[i], time, {}, &Entry::at);
    if (next != entries_[i].begin()) sums[i] = (next - 1)->sum;
  }
  return sums;
}

}  // namespace kernbench::sim
