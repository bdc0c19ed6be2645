#include "runtime/stream/stream_races.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

// An access that is covered by a later one which follows it need not be kept: what races with the
// earlier one races with the later one, or follows it.
bool covers(const StreamAccess& later, const StreamAccess& earlier) {
  return (later.writes || !earlier.writes) && later.elements.contains(earlier.elements) &&
         (later.by.follows(earlier.by) || later.by.stream == earlier.by.stream);
}

}  // namespace

void StreamRaces::access(const sim::MemoryStore& memory, sim::RegionId region,
                         const StreamAccess& access, const std::string& tensor,
                         const std::string& where) {
  OfRegion& known = regions_[region.index];
  if (known.region != region) known = {region, {}};  // the index is used again
  for (const StreamAccess& earlier : known.accesses) {
    const bool is_hazard = earlier.writes || access.writes;
    const bool is_ordered = earlier.by.stream == access.by.stream ||
                            access.by.follows(earlier.by) || earlier.by.follows(access.by);
    if (!is_hazard || is_ordered || !overlap(earlier.elements, access.elements)) continue;
    throw DeviceError(
        "KB-M031",
        fmt::format("{} {} elements {} of tensor '{}', which {} {}, and nothing orders their "
                    "streams {} and {}; wait for an Event of the one, or wait_stream(), before "
                    "the launch on the other",
                    where, access.writes ? "writes" : "reads", to_string(access.elements), tensor,
                    *earlier.what, earlier.writes ? "writes" : "reads", access.by.stream,
                    earlier.by.stream));
  }
  std::erase_if(known.accesses,
                [&](const StreamAccess& earlier) { return covers(access, earlier); });
  known.accesses.push_back(access);
  forget_freed(memory);
}

void StreamRaces::forget_freed(const sim::MemoryStore& memory) {
  if (regions_.size() < forget_at_) return;
  std::erase_if(regions_, [&](const auto& entry) { return !memory.is_live(entry.second.region); });
  forget_at_ = std::max(forget_at_, 2 * regions_.size());
}

}  // namespace kernbench::runtime
