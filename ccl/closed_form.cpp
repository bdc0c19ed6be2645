#include "ccl/closed_form.h"

#include <algorithm>

#include "ccl/algorithms/cube_tree.h"
#include "sim_engine/components/grid.h"
#include "sim_engine/components/routing.h"

namespace kernbench::ccl {

namespace {

// Of a way: its latency and the time that `bytes` take at its slowest link.
struct Way {
  Time alpha{0};
  Bandwidth slowest;
};

Way way_between(const Topology& topology, const sim::PeLocation& from, const sim::PeLocation& to) {
  const sim::Path path = sim::Routing(topology).route({sim::Endpoint::Kind::tcm, from},
                                                      {sim::Endpoint::Kind::tcm, to});
  return {path.latency, path.bottleneck};
}

// One dimension of `size` SIPs of which each exchanges `bytes`, reduce-scatter or all-gather: a
// ring used both ways moves half the chunks each way, a line all of them.
Time one_pass(const Way& way, int size, bool wraps, Bytes bytes) {
  if (size < 2) return Time{0};
  // A ring of two is one pair of links, which both directions of travel share.
  const int directions = wraps && size > 2 ? 2 : 1;
  return (way.alpha + transfer_time(bytes / size / directions, way.slowest)) * (size - 1);
}

// Steps from the cube that is farthest from the root.
int tree_depth(const sim::Grid& cubes, int count) {
  int deepest = 0;
  for (int cube = 0; cube < count; ++cube) {
    int depth = 0;
    for (int at = cube; at != root_cube(cubes, count); ++depth) {
      const sim::Direction up = *cube_tree_node(cubes, count, at).parent;
      at = cubes.neighbour(at, static_cast<sim::Compass>(up));
    }
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

}  // namespace

std::optional<ClosedForm> intercube_closed_form(const Topology& topology, const DPPolicy& placement,
                                                Bytes bytes) {
  if (is_sharded(placement.cube)) return std::nullopt;
  const sim::Grid cubes = sim::cube_grid(topology);
  const sim::Grid sips = sim::sip_grid(topology);
  const int cube_count = placement.num_cubes == 0 ? cubes.count() : placement.num_cubes;
  const int root = root_cube(cubes, cube_count);

  ClosedForm form;
  if (sips.count() > 1) {
    const int neighbour = sips.neighbour(0, sips.w > 1 ? sim::Compass::east : sim::Compass::south);
    const Way way = way_between(topology, {0, root, 0}, {neighbour, root, 0});
    form.time += 2 * (one_pass(way, sips.w, sips.wraps, bytes) +
                      one_pass(way, sips.h, sips.wraps, bytes / sips.w));
    form.formula = sips.wraps ? "ring per dimension, both ways" : "line per dimension";
  }
  if (cube_count > 1) {
    const Way way = way_between(topology, {0, 0, 0}, {0, 1, 0});
    const Time hop = way.alpha + transfer_time(bytes, way.slowest);
    form.time += hop * tree_depth(cubes, cube_count) * (placement.cube == Shard::partial ? 2 : 1);
    form.formula += (form.formula.empty() ? "" : " + ");
    form.formula += "centre-root tree over the cubes";
  }
  return form;
}

}  // namespace kernbench::ccl
