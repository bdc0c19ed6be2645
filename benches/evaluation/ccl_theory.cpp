#include "benches/evaluation/ccl_theory.h"

#include <algorithm>

#include "ccl/core/spanning_tree.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/topology/location.h"

namespace kernbench::benches::evaluation {

namespace {

// A link that all PEs of a cube share.
struct SharedLink {
  Time latency{0};  // of a message's whole way, from TCM to TCM
  Bandwidth bandwidth;
  int lanes = 1;

  // The time of `steps`, in each of which every lane sends its part of `bytes`.  A lane begins the
  // next step when its part has come, and when the link has carried those of the others.
  Time steps(int steps, Bytes bytes) const {
    if (steps == 0) return Time{0};
    const Time all = transfer_time(bytes, bandwidth);
    return (steps - 1) * std::max(latency + all / lanes, all) + latency + all;
  }
};

SharedLink link_between(const Topology& topology, const sim::PeLocation& from,
                        const sim::PeLocation& to, Bandwidth bandwidth) {
  using Kind = sim::Endpoint::Kind;
  const sim::Path path = sim::Routing(topology).route({Kind::tcm, from}, {Kind::tcm, to});
  return {path.latency, bandwidth, topology.pe_count()};
}

// One way over the tree: the chunks, a lane's part of each being a message, follow each other.
Time over_tree(const Topology& topology, const sim::Grid& cubes, ccl::Root root, int chunks,
               Bytes bytes) {
  if (cubes.count() == 1) return Time{0};
  const SharedLink link = link_between(topology, {0, 0, 0}, {0, cubes.w > 1 ? 1 : cubes.w, 0},
                                       topology.sip.ucie.bandwidth);
  const int depth = ccl::grid_tree_depth(cubes, cubes.count(), root);
  const Time all = transfer_time(bytes, link.bandwidth);
  return depth * link.latency + all + (depth - 1) * all / (chunks * link.lanes);
}

// The share of the data that each link of a dimension carries, there and back, times `scale`: of a
// ring, used the shorter ways, (s - 1)/s; of a line all.
std::int64_t load(const sim::Grid& sips, int size, std::int64_t scale) {
  if (size == 1) return 0;
  return sips.wraps && size > 2 ? scale / size * (size - 1) : scale;
}

// With a share f of the data along rows first, and the rest along columns first, rows carry
// f X + (1 - f) X/h and columns f Y/w + (1 - f) Y: as much for this f.
Bytes bytes_on_a_link(const sim::Grid& sips, Bytes bytes) {
  const std::int64_t rows = load(sips, sips.w, sips.count());
  const std::int64_t columns = load(sips, sips.h, sips.count());
  if (sips.w == 1 || sips.h == 1) return bytes * (rows + columns) / sips.count();
  const std::int64_t rows_first = columns - rows / sips.h;
  const std::int64_t columns_first = rows - columns / sips.w;
  const std::int64_t carried = rows_first * rows + columns_first * rows / sips.h;
  return bytes * carried / (rows_first + columns_first) / sips.count();
}

// Reduce-scatter and all-gather over the grid: its diameter there and back, with all links as busy.
Time over_grid(const SharedLink& link, const sim::Grid& sips, Bytes bytes) {
  const auto depth = [&](int size) { return sips.wraps && size > 2 ? size / 2 : size - 1; };
  const int steps = 2 * (depth(sips.w) + depth(sips.h));
  return link.steps(steps, bytes_on_a_link(sips, bytes) / steps);
}

}  // namespace

Time intercube_on_links(const Topology& topology, ccl::Root root, Bytes bytes) {
  const sim::Grid cubes = sim::cube_grid(topology);
  const sim::Grid sips = sim::sip_grid(topology);
  const int chunks = sips.w * (sips.wraps ? 2 : 1);
  const Time trees = 2 * over_tree(topology, cubes, root, chunks, bytes);
  if (sips.count() == 1) return trees;
  const int cube = ccl::root_of(cubes, cubes.count(), root);
  const SharedLink link = link_between(topology, {0, cube, 0}, {sips.w > 1 ? 1 : sips.w, cube, 0},
                                       topology.system.sip_link.bandwidth);
  return trees + over_grid(link, sips, bytes);
}

}  // namespace kernbench::benches::evaluation
