#include "runtime/simulation/activity_meter.h"

#include <algorithm>

namespace kernbench::runtime {

DeviceActivity ActivityMeter::of(int device) const {
  const Device& state = devices_[static_cast<std::size_t>(device)];
  const Time passed = engine_.now() - state.since;
  DeviceActivity activity = state.before;
  if (state.kernels > 0) activity.computing += passed;
  if (state.collectives > 0) activity.communicating += passed;
  if (state.kernels > 0 && state.collectives > 0) activity.overlapped += passed;
  return activity;
}

ActivityMeter::Device& ActivityMeter::counted(int device) {
  Device& state = devices_[static_cast<std::size_t>(device)];
  state.before = of(device);
  state.since = engine_.now();
  return state;
}

void ActivityMeter::collective_began(int device, int group) {
  Device& state = counted(device);
  if (state.collectives++ == 0 && keeps_intervals_) state.communicating.begin(engine_.now());
  Communication& own = state.groups[group];
  if (own.under_way++ > 0) return;
  own.since = engine_.now();
  own.computing = state.before.computing;
}

void ActivityMeter::collective_ended(int device, int group) {
  Device& state = counted(device);
  if (--state.collectives == 0 && keeps_intervals_) state.communicating.end(engine_.now());
  Communication& own = state.groups[group];
  if (own.under_way == 1) own.before += under_way(own, state.before.computing);
  --own.under_way;
}

DeviceActivity ActivityMeter::under_way(const Communication& group, Time computing) const {
  if (group.under_way == 0) return {};
  return {.communicating = engine_.now() - group.since, .overlapped = computing - group.computing};
}

DeviceActivity ActivityMeter::of_group(int device, int group) const {
  const Device& state = devices_[static_cast<std::size_t>(device)];
  const Time computing = of(device).computing;
  DeviceActivity activity;
  if (const auto found = state.groups.find(group); found != state.groups.end()) {
    activity = found->second.before;
    activity += under_way(found->second, computing);
  }
  activity.computing = computing;
  return activity;
}

void ActivityMeter::keep_intervals() {
  if (keeps_intervals_) return;
  keeps_intervals_ = true;
  for (Device& state : devices_) {
    if (state.kernels > 0) state.computing.begin(engine_.now());
    if (state.collectives > 0) state.communicating.begin(engine_.now());
  }
}

DeviceActivity ActivityMeter::between(int device, Time from, Time to) const {
  const Device& state = devices_[static_cast<std::size_t>(device)];
  DeviceActivity activity{.computing = state.computing.covered(from, to),
                          .communicating = state.communicating.covered(from, to)};
  const auto& all = state.communicating.all();
  auto one = std::ranges::upper_bound(all, from, {}, &Intervals::Interval::end);
  for (; one != all.end() && one->start < to; ++one) {
    activity.overlapped +=
        state.computing.covered(std::max(one->start, from), std::min(one->end, to));
  }
  return activity;
}

void ActivityMeter::abandon() {
  for (int device = 0; device < static_cast<int>(devices_.size()); ++device) {
    Device& state = counted(device);
    if (state.kernels > 0 && keeps_intervals_) state.computing.end(engine_.now());
    if (state.collectives > 0 && keeps_intervals_) state.communicating.end(engine_.now());
    for (auto& [group, own] : state.groups) {
      own.before += under_way(own, state.before.computing);
      own.under_way = 0;
    }
    state.kernels = 0;
    state.collectives = 0;
  }
}

}  // namespace kernbench::runtime
