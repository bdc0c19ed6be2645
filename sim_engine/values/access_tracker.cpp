#include "sim_engine/values/access_tracker.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

bool AccessTracker::races(const InFlight& a, const InFlight& b) {
  if (a.access == Access::read && b.access == Access::read) return false;
  return a.region == b.region && !a.origin.is_same_kernel(b.origin) &&
         overlap(a.elements, b.elements);
}

void AccessTracker::report(const InFlight& earlier, const InFlight& later) {
  const auto line = [](const InFlight& access) {
    return fmt::format("  {} by {} {} elements {} since {}", access.origin.operation,
                       to_string(access.origin.pe),
                       access.access == Access::write ? "writes" : "reads",
                       to_string(access.elements), kernbench::to_string(access.since));
  };
  const bool is_one_pe = earlier.origin.pe == later.origin.pe;
  throw DeviceError(
      "KB-M030",
      fmt::format("data race on elements {} of region {}: {} and {} are unordered\n{}\n{}\n"
                  "  nothing orders the two; {}",
                  to_string(common_stretch(earlier.elements, later.elements)), later.region.index,
                  earlier.origin.operation, later.origin.operation, line(earlier), line(later),
                  is_one_pe ? "a kernel and a collective run on that PE side by side; wait for the "
                              "Work before the launch"
                            : "a tl.send after the first and a tl.recv before the second would"));
}

AccessId AccessTracker::begin(RegionId region, const ElementRange& elements, Access access,
                              const AccessOrigin& origin, Time now) {
  const InFlight added{region, elements, access, origin, now};
  if (region.index >= first_of_region_.size()) first_of_region_.resize(region.index + 1, kNone);
  for (std::uint32_t slot = first_of_region_[region.index]; slot != kNone;
       slot = slots_[slot].next) {
    if (races(slots_[slot], added)) report(slots_[slot], added);
  }
  return insert(added);
}

AccessId AccessTracker::insert(const InFlight& access) {
  std::uint32_t slot = free_;
  if (slot != kNone) {
    free_ = slots_[slot].next;
  } else {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.emplace_back();
  }
  const std::uint32_t generation = slots_[slot].generation;
  std::uint32_t& first = first_of_region_[access.region.index];
  slots_[slot] = access;
  slots_[slot].generation = generation;
  slots_[slot].next = first;
  if (first != kNone) slots_[first].previous = slot;
  first = slot;
  return {slot, generation};
}

void AccessTracker::end(AccessId id) {
  KB_CHECK(id.slot < slots_.size() && slots_[id.slot].generation == id.generation,
           "an access that has ended");
  InFlight& ended = slots_[id.slot];
  (ended.previous == kNone ? first_of_region_[ended.region.index] : slots_[ended.previous].next) =
      ended.next;
  if (ended.next != kNone) slots_[ended.next].previous = ended.previous;
  ++ended.generation;
  ended.next = free_;
  free_ = id.slot;
}

void AccessTracker::clear() {
  for (std::uint32_t& first : first_of_region_) {
    while (first != kNone) end({first, slots_[first].generation});
  }
}

}  // namespace kernbench::sim
