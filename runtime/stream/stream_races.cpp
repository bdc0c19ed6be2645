#include "runtime/stream/stream_races.h"

#include <algorithm>
#include <bit>

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

namespace {

// An access that is covered by a later one which follows it need not be kept: what races with the
// earlier one races with the later one, or follows it.
bool covers(const StreamAccess& later, const StreamAccess& earlier) {
  return (later.writes || !earlier.writes) && later.elements.contains(earlier.elements) &&
         (later.by.follows(earlier.by) || later.by.is_on_stream_of(earlier.by));
}

std::int64_t width_of(const sim::ElementRange& elements) {
  return elements.end() - elements.begin;
}

int count_bits(std::int64_t width) {
  return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(width)));
}

}  // namespace

// Calls visit(of_width, its place) for each access that may have elements in common with these;
// visit may erase it.
template <class Visit>
void StreamRaces::visit_near(OfRegion& known, const sim::ElementRange& elements,
                             const Visit& visit) {
  for (auto& [bits, of_width] : known.accesses) {
    auto place = of_width.lower_bound(elements.begin - (std::int64_t{1} << bits));
    while (place != of_width.end() && place->first < elements.end()) visit(of_width, place++);
  }
}

void StreamRaces::access(const sim::MemoryStore& memory, sim::RegionId region,
                         const StreamAccess& access, const std::string& tensor,
                         const std::string& where) {
  OfRegion& known = regions_[region.index];
  if (known.region != region) known = {region, {}};  // the index is used again
  visit_near(known, access.elements, [&](const OfWidth&, OfWidth::const_iterator place) {
    const StreamAccess& earlier = place->second;
    const bool is_hazard = earlier.writes || access.writes;
    const bool is_ordered = access.by.is_on_stream_of(earlier.by) ||
                            access.by.follows(earlier.by) || earlier.by.follows(access.by);
    if (!is_hazard || is_ordered || !overlap(earlier.elements, access.elements)) return;
    throw DeviceError(
        "KB-M031",
        "{} {} elements {} of tensor '{}', which {} {}, and nothing orders their streams {} and "
        "{}; wait for an Event of the one, or wait_stream(), before the launch on the other",
        where, access.writes ? "writes" : "reads", to_string(access.elements), tensor,
        *earlier.what, earlier.writes ? "writes" : "reads", access.by.slot->stream(),
        earlier.by.slot->stream());
  });
  visit_near(known, access.elements, [&](OfWidth& of_width, OfWidth::const_iterator place) {
    if (covers(access, place->second)) of_width.erase(place);
  });
  known.accesses[count_bits(width_of(access.elements))].emplace(access.elements.begin, access);
  forget_freed(memory);
}

void StreamRaces::forget_freed(const sim::MemoryStore& memory) {
  if (regions_.size() < forget_at_) return;
  std::erase_if(regions_, [&](const auto& entry) { return !memory.is_live(entry.second.region); });
  forget_at_ = std::max(forget_at_, 2 * regions_.size());
}

}  // namespace kernbench::runtime
