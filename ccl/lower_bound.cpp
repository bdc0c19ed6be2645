#include "ccl/lower_bound.h"

#include <algorithm>
#include <limits>

#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

namespace {

// Different neighbours of a SIP: in a dimension of size 2 both directions lead to the same one.
int degree(const sim::Grid& sips, int sip) {
  int count = 0;
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto direction = static_cast<sim::Compass>(i);
    const int neighbour = sips.neighbour(sip, direction);
    if (neighbour < 0) continue;
    const bool again = neighbour == sips.neighbour(sip, opposite(direction));
    count += !again || i % 2 == 0;
  }
  return count;
}

int least_degree(const sim::Grid& sips) {
  int least = std::numeric_limits<int>::max();
  for (int sip = 0; sip < sips.count(); ++sip) least = std::min(least, degree(sips, sip));
  return least;
}

// Links each way across a straight cut of one dimension: on a ring it meets two places.
int cut_width(int size, int other, bool wraps) {
  if (size < 2) return std::numeric_limits<int>::max();
  return other * (wraps && size > 2 ? 2 : 1);
}

int diameter(const sim::Grid& sips) {
  if (sips.wraps) return sips.w / 2 + sips.h / 2;
  return (sips.w - 1) + (sips.h - 1);
}

// bytes * numerator / denominator at a bandwidth, rounded down: a bound must not be too high.
Time at_least(Bytes bytes, std::int64_t numerator, std::int64_t denominator, Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return Time{0};
  __extension__ using Wide = __int128;
  return Time{static_cast<std::int64_t>(static_cast<Wide>(bytes) * 1'000'000'000'000 * numerator /
                                        denominator / bandwidth.per_second)};
}

}  // namespace

int directed_link_count(const Topology& topology) {
  const sim::Grid sips = sim::sip_grid(topology);
  int count = 0;
  for (int sip = 0; sip < sips.count(); ++sip) count += degree(sips, sip);
  return count;
}

Time all_reduce_lower_bound(const Topology& topology, Bytes bytes) {
  const sim::Grid sips = sim::sip_grid(topology);
  if (sips.count() < 2 || bytes == 0) return Time{0};
  const LinkSpec& link = topology.system.sip_link;
  const int cut =
      std::min(cut_width(sips.w, sips.h, sips.wraps), cut_width(sips.h, sips.w, sips.wraps));
  return std::max({
      at_least(bytes, 2 * (sips.count() - 1), directed_link_count(topology), link.bandwidth),
      at_least(bytes, 1, least_degree(sips), link.bandwidth),
      at_least(bytes, 1, cut, link.bandwidth),
      link.latency * diameter(sips),
  });
}

Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes) {
  if (world_size < 2 || bytes == 0) return Time{0};
  const Bandwidth port = std::min(topology.cube.noc.bandwidth, topology.pe.tcm.bandwidth);
  const Time news = 2 * (topology.cube.noc.latency + topology.pe.tcm.latency);
  return std::max(at_least(bytes, 2 * (world_size - 1), world_size, port), news);
}

}  // namespace kernbench::ccl
