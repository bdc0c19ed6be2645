#include "sim_engine/values/access_tracker.h"

#include <fmt/format.h>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"

namespace kernbench::sim {

// A race needs a write and two kernels.
void AccessTracker::check_races(InRegion& there, const UnderWay& added,
                                const ElementRange& elements) {
  const bool adds_write = added.access == Access::write;
  if (there.count == 0 || (there.writes == 0 && !adds_write)) return;
  if (!there.is_shared && there.sole.is_same_kernel(added.origin)) return;
  AccessIndex::Id latest = AccessIndex::kNone;
  ElementRange its_elements;
  const auto consider = [&](AccessIndex::Id id, const ElementRange& other_elements) {
    const UnderWay& other = under_way_[id];
    if (other.access == Access::read && !adds_write) return;
    if (other.origin.is_same_kernel(added.origin)) return;
    if (latest != AccessIndex::kNone && under_way_[latest].number > other.number) return;
    latest = id;
    its_elements = other_elements;
  };
  index_.visit_overlapping(there.accesses, added.region, elements, consider);
  if (latest != AccessIndex::kNone) report(latest, its_elements, added, elements);
}

void AccessTracker::report(AccessIndex::Id earlier_id, const ElementRange& its_elements,
                           const UnderWay& later, const ElementRange& elements) const {
  const auto line = [](const UnderWay& access, const ElementRange& range) {
    return fmt::format("  {} by {} {} elements {} since {}", access.origin.operation,
                       to_string(access.origin.pe),
                       access.access == Access::write ? "writes" : "reads", to_string(range),
                       kernbench::to_string(access.since));
  };
  const UnderWay& earlier = under_way_[earlier_id];
  const bool is_one_pe = earlier.origin.pe == later.origin.pe;
  throw DeviceError("KB-M030",
                    "data race on elements {} of region {}: {} and {} are unordered\n{}\n{}\n  "
                    "nothing orders the two; {}",
                    to_string(common_stretch(its_elements, elements)), later.region.index,
                    earlier.origin.operation, later.origin.operation, line(earlier, its_elements),
                    line(later, elements),
                    is_one_pe ? "a kernel and a collective run on that PE side by side; wait for "
                                "the Work before the launch"
                              : "a tl.send after the first and a tl.recv before the second would");
}

AccessId AccessTracker::begin(RegionId region, const ElementRange& elements, Access access,
                              const AccessOrigin& origin, Time now) {
  if (region.index >= regions_.size()) regions_.resize(region.index + 1);
  InRegion& there = regions_[region.index];
  UnderWay added{region, access, origin, now, next_number_};
  check_races(there, added, elements);
  ++next_number_;
  if (there.count++ == 0) {
    there.sole = origin;
    there.is_shared = false;
  } else if (!there.sole.is_same_kernel(origin)) {
    there.is_shared = true;
  }
  there.writes += access == Access::write;
  const AccessIndex::Id id = index_.add(there.accesses, region, elements);
  if (id >= under_way_.size()) under_way_.resize(id + 1);
  added.generation = under_way_[id].generation;
  under_way_[id] = added;
  return {id, added.generation};
}

void AccessTracker::end(AccessId id) {
  KB_CHECK(id.slot < under_way_.size() && under_way_[id.slot].generation == id.generation,
           "an access that has ended");
  UnderWay& ended = under_way_[id.slot];
  InRegion& there = regions_[ended.region.index];
  --there.count;
  there.writes -= ended.access == Access::write;
  index_.remove(there.accesses, id.slot);
  ++ended.generation;
}

void AccessTracker::clear() {
  index_ = {};
  regions_.clear();
  for (UnderWay& access : under_way_) ++access.generation;
}

}  // namespace kernbench::sim
