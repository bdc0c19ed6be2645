// The time that each algorithm takes from the beginning of its kernels, when only links cost time
// (TIMING.md 3.2).  alpha is the latency of the path between neighbours, beta the time per byte on
// its slowest link.
//
// Between SIPs, a PE's ports and memory are taken to cost nothing; where they do, an algorithm
// takes longer.  Between PEs that are ranks the ports are the links: loading and storing the
// tensor counts.

#include <algorithm>

#include "ccl/algorithms/hello_send.h"
#include "ccl/algorithms/intercube_allreduce.h"
#include "ccl/algorithms/mesh_allreduce.h"
#include "ccl/algorithms/ring_allreduce.h"
#include "ccl/algorithms/tree_allreduce.h"
#include "ccl/layout.h"
#include "ccl/ring_order.h"
#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/routing.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kCreditBytes = 16;

// The latency and the slowest link of a path.
struct Way {
  Time alpha{0};
  Bandwidth slowest;

  Time of(Bytes bytes) const { return transfer_time(bytes, slowest); }  // without alpha
};

Way way_between(const Topology& topology, const sim::Endpoint& from, const sim::Endpoint& to) {
  const sim::Path path = sim::Routing(topology).route(from, to);
  return {path.latency, path.bottleneck};
}

sim::Endpoint tcm(const sim::PeLocation& pe) {
  return {sim::Endpoint::Kind::tcm, pe};
}

sim::Endpoint hbm(const sim::PeLocation& pe) {
  return {sim::Endpoint::Kind::hbm, pe};
}

// The division of a tensor into chunks, each of which is `pieces` messages of `bytes` each.
struct Cut {
  int pieces = 1;
  Bytes bytes = 0;

  Bytes chunk() const { return pieces * bytes; }
};

// A collective whose messages all have one size, and the paths between its participants.
class UniformCase {
 public:
  // Returns nullopt where the model does not hold: no elements; waiting PEs that poll; parts on
  // several PEs of a SIP; with rank = PE, ranks beyond one cube, ranks that share a memory port,
  // or queues outside TCM.
  static std::optional<UniformCase> of(const CollectiveCase& collective);

  bool is_rank_pe() const { return layout_.is_rank_pe(); }
  int world_size() const { return layout_.world_size(); }
  int cube_count() const { return cube_count_; }
  const sim::Grid& grid() const { return layout_.place(0).grid.value().grid; }
  int depth() const { return ipcq_.depth; }
  const Way& way() const { return way_; }

  // Cuts the tensor into `chunk_count` chunks, which are cut into `parts` once more; nullopt if
  // they would differ in size or need several segments.
  std::optional<Cut> cut(int chunk_count, int parts = 1) const;

  // With rank = PE: the time to load all chunks before the first message and to store them after
  // the last; else 0.
  Time memory(int chunk_count, Bytes chunk) const;

  // The time of all chunks' pieces, in a row, up the tree over cubes and down again.
  std::optional<Time> over_cubes(int piece_count, Bytes bytes) const;

 private:
  UniformCase(const CollectiveCase& collective, Layout layout);

  const CollectiveCase collective_;
  const sim::IpcqParams ipcq_;
  const Layout layout_;
  int cube_count_ = 1;
  Way way_;
};

UniformCase::UniformCase(const CollectiveCase& collective, Layout layout)
    : collective_(collective), ipcq_(collective.config.ipcq()), layout_(std::move(layout)) {
  const Topology& topology = collective_.topology;
  if (!is_rank_pe()) {
    cube_count_ = collective_.placement.cube_holders(topology);
  }
  const int root = root_of(sim::cube_grid(topology), cube_count_, collective_.config.root());
  if (world_size() < 2) return;
  sim::PeLocation from = layout_.pe(0);
  // All PEs of a cube are neighbours, and so are adjacent SIPs.
  const sim::Grid sips = sim::sip_grid(topology);
  sim::PeLocation to = layout_.pe(1);
  if (!is_rank_pe()) {
    to = layout_.pe(sips.neighbour(0, sips.w > 1 ? sim::Compass::east : sim::Compass::south));
    from.cube = to.cube = root;
  }
  way_ = way_between(topology, tcm(from), tcm(to));
}

std::optional<UniformCase> UniformCase::of(const CollectiveCase& collective) {
  const auto& [topology, placement, n_elem, dtype, config] = collective;
  Layout layout(topology, config);
  if (n_elem == 0 || config.ipcq().wait == sim::WaitPolicy::poll) return std::nullopt;
  if (layout.is_rank_pe()) {
    const bool own_memory = topology.cube.hbm.bandwidth.is_unlimited() ||
                            sim::Routing::hbm_slice_count(topology) == topology.pe_count();
    const bool in_a_cube = layout.world_size() > 1 && layout.world_size() <= topology.pe_count();
    if (!in_a_cube || !own_memory || config.ipcq().buffer_kind != sim::BufferKind::tcm) {
      return std::nullopt;
    }
    return UniformCase(collective, std::move(layout));
  }
  const int cubes = placement.cube_holders(topology);
  const int pes = placement.pe_holders(topology);
  if ((is_sharded(placement.cube) && cubes > 1) || (is_sharded(placement.pe) && pes > 1)) {
    return std::nullopt;
  }
  return UniformCase(collective, std::move(layout));
}

std::optional<Cut> UniformCase::cut(int chunk_count, int parts) const {
  const std::int64_t slot = ipcq_.slot_bytes / size_of(collective_.dtype);
  const std::int64_t n = collective_.n_elem;
  const std::int64_t scratch =
      scratch_elements(collective_.topology, ipcq_, layout_.most_queues(), collective_.dtype);
  if (n % chunk_count != 0 || n > std::min(slot * ipcq_.depth * chunk_count, scratch)) {
    return std::nullopt;
  }
  const std::int64_t chunk = n / chunk_count;
  const auto pieces = static_cast<int>(sim::ceil_divide(chunk, slot));
  if (chunk % (pieces * parts) != 0) return std::nullopt;
  return Cut{pieces, chunk / pieces * size_of(collective_.dtype)};
}

// True if a slot is free whenever one is needed: either each message has its own, or the first is
// free again when all have been filled, with `per_period` messages in every period.  A sender
// takes the slot when it has the value, though the link may still carry messages of the period
// before.
bool never_waits_for_credit(const Way& way, Bytes message, int depth, int message_count,
                            int per_period, Time period) {
  const Time arrived = std::max(period, way.alpha + way.of(message));
  const Time occupied = arrived + way.alpha + way.of(kCreditBytes);
  return depth >= message_count || depth / per_period * period >= occupied;
}

Time UniformCase::memory(int chunk_count, Bytes chunk) const {
  if (!is_rank_pe()) return Time{0};
  const sim::PeLocation& pe = layout_.pe(0);
  const Way way = way_between(collective_.topology, hbm(pe), tcm(pe));
  return 2 * (way.alpha + chunk_count * way.of(chunk));
}

std::optional<Time> UniformCase::over_cubes(int piece_count, Bytes bytes) const {
  if (cube_count_ == 1) return Time{0};
  const Topology& topology = collective_.topology;
  const sim::Grid cubes = sim::cube_grid(topology);
  const Way way = way_between(topology, tcm({0, 0, 0}), tcm({0, cubes.w > 1 ? 1 : cubes.w, 0}));
  const int steps = grid_tree_depth(cubes, cube_count_, collective_.config.root());
  if (!never_waits_for_credit(way, bytes, ipcq_.depth, piece_count, 1, way.of(bytes))) {
    return std::nullopt;
  }
  const Time one_way = steps * way.alpha + (steps + piece_count - 1) * way.of(bytes);
  return one_way * (collective_.placement.cube == Shard::partial ? 2 : 1);
}

// The time of reduce-scatter and all-gather round a ring of `size`, if `sharing` messages at a
// time, one of each colour, share a link.
std::optional<Time> round_ring(const Way& way, int size, const Cut& cut, int depth, int sharing) {
  if (size < 2) return Time{0};
  if (sharing > 1 && cut.pieces > 1) return std::nullopt;
  const Time first = way.alpha + way.of(cut.bytes) * sharing;
  const Time step = std::max(first, way.of(cut.chunk()));
  const int messages = 2 * (size - 1) * cut.pieces;
  if (!never_waits_for_credit(way, cut.bytes, depth, messages, cut.pieces, step)) {
    return std::nullopt;
  }
  const Time last = way.alpha + way.of(cut.chunk()) * sharing;
  return 2 * ((size - 2) * step + last);
}

// The time of both along a line, whose end sends all its chunks at once.
std::optional<Time> along_line(const Way& way, int size, const Cut& cut, int depth) {
  if (size < 2) return Time{0};
  if (cut.pieces > 1 || depth < 2 * (size - 1)) return std::nullopt;
  return 2 * (size - 1) * (way.alpha + way.of(cut.bytes));
}

// The time along x, then y, on the grid of participants.
std::optional<Time> over_grid(const CollectiveCase& collective, bool use_wraps) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform) return std::nullopt;
  const sim::Grid& grid = uniform->grid();
  const bool wraps = use_wraps && grid.wraps;
  // All messages to a PE that is a rank come through one port.
  if (uniform->is_rank_pe() && grid.count() > 2) return std::nullopt;
  const int chunk_count = grid.w * (wraps ? 2 : 1);
  const auto cut = uniform->cut(chunk_count, grid.h);
  const bool in_parts = grid.h > 1 || uniform->is_rank_pe();
  if (!cut || (cut->pieces > 1 && in_parts)) return std::nullopt;
  const auto along = [&](int size, const Cut& parts) {
    return wraps ? round_ring(uniform->way(), size, parts, uniform->depth(), size == 2 ? 2 : 1)
                 : along_line(uniform->way(), size, parts, uniform->depth());
  };
  const auto x = along(grid.w, *cut);
  const auto y = along(grid.h, {1, cut->bytes / grid.h});
  const auto cubes = uniform->over_cubes(chunk_count * cut->pieces, cut->bytes);
  if (!x || !y || !cubes) return std::nullopt;
  return *x + *y + *cubes + uniform->memory(chunk_count, cut->chunk());
}

// True if each participant of a ring is a neighbour of the next one.
bool is_closed_ring(const UniformCase& uniform) {
  if (uniform.is_rank_pe()) return true;
  const sim::Grid& grid = uniform.grid();
  return grid.wraps || grid.count() == 1 || (grid.w > 1 && grid.h > 1 && grid.count() % 2 == 0);
}

std::optional<Time> over_ring(const CollectiveCase& collective, int colours) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || !is_closed_ring(*uniform)) return std::nullopt;
  const int size = uniform->world_size();
  const auto cut = uniform->cut(colours * size);
  if (!cut) return std::nullopt;
  // A PE that is a rank shares its ports between the two directions of travel; two SIPs share the
  // link.
  if (uniform->is_rank_pe() && (colours > 1 || cut->pieces > 1)) return std::nullopt;
  const int sharing = size == 2 ? colours : 1;
  const auto ring = round_ring(uniform->way(), size, *cut, uniform->depth(), sharing);
  const auto cubes = uniform->over_cubes(colours * size * cut->pieces, cut->bytes);
  if (!ring || !cubes) return std::nullopt;
  return *ring + *cubes + uniform->memory(colours * size, cut->chunk());
}

// For P = 2^k every round of the reduction and of the broadcast is a step.  For 2^k - 1 the
// deepest node is missing, which saves one latency; the ports are as busy.
std::optional<Time> over_binomial_tree(const UniformCase& uniform, const Cut& cut) {
  int rounds = 0;
  while ((1 << rounds) < uniform.world_size()) ++rounds;
  const bool is_full = uniform.world_size() == 1 << rounds;
  if (cut.pieces > 1 || (!is_full && uniform.world_size() != (1 << rounds) - 1)) {
    return std::nullopt;
  }
  const int hops = is_full ? rounds : rounds - 1;
  return 2 * (hops * uniform.way().alpha + rounds * uniform.way().of(cut.bytes)) +
         uniform.memory(1, cut.bytes);
}

// The time of `pieces` that follow each other to the root and back.  A node passes sums down only
// after its last summand has gone up, so beside the root the first sum may have to wait.
Time over_grid_tree(const Way& way, int steps, const Cut& cut) {
  const Time hop = way.alpha + way.of(cut.bytes);
  const Time last_behind_first = (cut.pieces - 1) * way.of(cut.bytes);
  const Time waits = steps > 1 ? std::max(last_behind_first - 2 * hop, Time{0}) : Time{0};
  return 2 * steps * hop + last_behind_first + waits;
}

}  // namespace

std::optional<Time> intercube_closed_form(const CollectiveCase& collective) {
  return over_grid(collective, true);
}

std::optional<Time> mesh_closed_form(const CollectiveCase& collective) {
  return over_grid(collective, false);
}

std::optional<Time> ring_closed_form(const CollectiveCase& collective) {
  return over_ring(collective, 1);
}

std::optional<Time> bidirectional_ring_closed_form(const CollectiveCase& collective) {
  return over_ring(collective, 2);
}

std::optional<Time> tree_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform) return std::nullopt;
  const auto cut = uniform->cut(1);
  if (!cut) return std::nullopt;
  if (uniform->is_rank_pe()) return over_binomial_tree(*uniform, *cut);
  const auto cubes = uniform->over_cubes(cut->pieces, cut->bytes);
  if (!cubes) return std::nullopt;
  const sim::Grid& grid = uniform->grid();
  const int steps = grid_tree_depth(grid, grid.count(), Root::center);
  return *cubes + (steps == 0 ? Time{0} : over_grid_tree(uniform->way(), steps, *cut));
}

std::optional<Time> hello_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->cube_count() > 1 || !is_closed_ring(*uniform)) return std::nullopt;
  const auto cut = uniform->cut(1);
  if (!cut || cut->pieces > 1) return std::nullopt;
  if (uniform->world_size() == 1) return Time{0};
  return uniform->way().alpha + uniform->way().of(cut->bytes) + uniform->memory(1, cut->bytes);
}

}  // namespace kernbench::ccl
