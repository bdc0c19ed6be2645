#include "ccl/closed_form.h"

#include <algorithm>

#include "ccl/algorithms/cube_tree.h"
#include "ccl/algorithms/sip_exchange.h"
#include "sim_engine/components/direction.h"
#include "sim_engine/components/routing.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kCreditBytes = 16;

// Of a way: its latency and its slowest link.
struct Way {
  Time alpha{0};
  Bandwidth slowest;

  Time of(Bytes bytes) const { return transfer_time(bytes, slowest); }  // without alpha
};

Way way_between(const Topology& topology, const sim::PeLocation& from, const sim::PeLocation& to) {
  const sim::Path path = sim::Routing(topology).route({sim::Endpoint::Kind::tcm, from},
                                                      {sim::Endpoint::Kind::tcm, to});
  return {path.latency, path.bottleneck};
}

// Whether a slot is free whenever one is needed: there is one for each message, or the first is
// back when they have been filled at one message per `period`.
bool never_waits_for_credit(const Way& way, Bytes message, int depth, int message_count,
                            Time period) {
  const Time occupied = way.of(message) + way.alpha + way.alpha + way.of(kCreditBytes);
  return depth >= message_count || depth * period >= occupied;
}

// Along one dimension of `size` SIPs, reduce-scatter and all-gather, of one chunk for each of them
// and direction of travel.
std::optional<Time> both_passes(const Way& way, int size, bool wraps, Bytes chunk, int depth) {
  if (size < 2) return Time{0};
  // A ring of two is one pair of links, which both directions of travel share.
  const Time step = way.alpha + way.of(chunk) * (wraps && size == 2 ? 2 : 1);
  // At the end of a line all chunks are sent at once.
  const Time period = wraps ? step : Time{0};
  if (!never_waits_for_credit(way, chunk, depth, 2 * (size - 1), period)) return std::nullopt;
  return 2 * (size - 1) * step;
}

// Steps from the cube that is farthest from the root.
int tree_depth(const sim::Grid& cubes, int count) {
  int deepest = 0;
  for (int cube = 0; cube < count; ++cube) {
    int depth = 0;
    for (int at = cube; at != root_cube(cubes, count); ++depth) {
      at = cubes.neighbour(at, sim::to_compass(*cube_tree_node(cubes, count, at).parent));
    }
    deepest = std::max(deepest, depth);
  }
  return deepest;
}

// One way through the tree of chunks that follow each other.
std::optional<Time> through_tree(const Way& way, int steps, int chunk_count, Bytes chunk,
                                 int depth) {
  if (!never_waits_for_credit(way, chunk, depth, chunk_count, way.of(chunk))) return std::nullopt;
  return steps * way.alpha + (steps + chunk_count - 1) * way.of(chunk);
}

int holders(int wanted, int all) {
  return wanted == 0 ? all : wanted;
}

}  // namespace

std::optional<Time> intercube_closed_form(const CollectiveCase& collective) {
  const auto& [topology, placement, n_elem, dtype, ipcq] = collective;
  const sim::Grid cubes = sim::cube_grid(topology);
  const sim::Grid sips = sim::sip_grid(topology);
  const int cube_count = holders(placement.num_cubes, cubes.count());
  const int pe_count = holders(placement.num_pes, topology.pe_count());
  if (is_sharded(placement.cube) && cube_count > 1) return std::nullopt;
  if (is_sharded(placement.pe) && pe_count > 1) return std::nullopt;

  const int chunk_count = sip_exchange_chunk_count(sips);
  if (n_elem == 0 || n_elem % (chunk_count * sips.h) != 0) return std::nullopt;
  const Bytes chunk = n_elem / chunk_count * size_of(dtype);
  if (chunk > ipcq.slot_bytes || n_elem > scratch_elements(topology, ipcq, dtype)) {
    return std::nullopt;
  }

  const int root = root_cube(cubes, cube_count);
  Time total{0};
  if (sips.count() > 1) {
    const int neighbour = sips.neighbour(0, sips.w > 1 ? sim::Compass::east : sim::Compass::south);
    const Way way = way_between(topology, {0, root, 0}, {neighbour, root, 0});
    const auto x = both_passes(way, sips.w, sips.wraps, chunk, ipcq.depth);
    const auto y = both_passes(way, sips.h, sips.wraps, chunk / sips.h, ipcq.depth);
    if (!x || !y) return std::nullopt;
    total += *x + *y;
  }
  if (cube_count > 1) {
    const Way way = way_between(topology, {0, 0, 0}, {0, 1, 0});
    const auto one_way =
        through_tree(way, tree_depth(cubes, cube_count), chunk_count, chunk, ipcq.depth);
    if (!one_way) return std::nullopt;
    total += *one_way * (placement.cube == Shard::partial ? 2 : 1);
  }
  return total;
}

}  // namespace kernbench::ccl
