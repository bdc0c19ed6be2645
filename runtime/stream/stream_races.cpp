#include "runtime/stream/stream_races.h"

#include <algorithm>

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

bool are_ordered(const StreamPosition& a, const StreamPosition& b) {
  return a.is_on_stream_of(b) || a.follows(b) || b.follows(a);
}

}  // namespace

void StreamRaces::access(const sim::MemoryStore& memory, sim::RegionId region,
                         const sim::ElementRange& elements, const StreamAccess& access,
                         const std::string& tensor, FunctionRef<std::string()> where) {
  OfRegion& known = regions_[region.index];
  if (known.region != region) known = {region, {}};  // the index is used again
  const auto check = [&](const StreamAccess& earlier) {
    const bool is_hazard = earlier.writes || access.writes;
    if (!is_hazard || are_ordered(access.by, earlier.by)) return;
    throw DeviceError(
        "KB-M031",
        "{} {} elements {} of tensor '{}', which {} {}, and nothing orders their streams {} and "
        "{}; wait for an Event of the one, or wait_stream(), before the launch on the other",
        where(), access.writes ? "writes" : "reads", to_string(elements), tensor, *earlier.what,
        earlier.writes ? "writes" : "reads", access.by.slot->stream(), earlier.by.slot->stream());
  };
  // An access that is covered by a later one which follows it need not be kept: what races with the
  // earlier one races with the later one, or follows it.
  const auto is_covered = [&](const StreamAccess& earlier, const sim::ElementRange& its) {
    check(earlier);
    return (access.writes || !earlier.writes) && elements.contains(its) &&
           (access.by.follows(earlier.by) || access.by.is_on_stream_of(earlier.by));
  };
  known.accesses.erase_if(elements, is_covered);
  known.accesses.add(elements, access);
  forget_freed(memory);
}

void StreamRaces::forget_freed(const sim::MemoryStore& memory) {
  if (regions_.size() < forget_at_) return;
  std::erase_if(regions_, [&](const auto& entry) { return !memory.is_live(entry.second.region); });
  forget_at_ = std::max(forget_at_, 2 * regions_.size());
}

}  // namespace kernbench::runtime
