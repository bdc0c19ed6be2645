#include "test/ccl/closed_form.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ccl/algorithms/direct.h"
#include "ccl/algorithms/grid.h"
#include "ccl/algorithms/ring.h"
#include "ccl/algorithms/swing.h"
#include "ccl/algorithms/tree.h"
#include "ccl/core/layout.h"
#include "ccl/core/spanning_tree.h"
#include "ccl/steps/cut_sizes.h"
#include "sim_engine/components/routing.h"

namespace kernbench::test {

using namespace ccl;  // NOLINT: the formulas read as the algorithms do

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

// A collective whose messages all have one size, and the paths between its participants.
class UniformCase {
 public:
  // Returns nullopt where the model does not hold: no elements; waiting PEs that poll; slices on
  // several PEs of a SIP; with rank = PE, ranks beyond one cube, ranks that share a memory port or
  // a corner's way to the rest of the cube, or queues outside TCM; protocols.
  static std::optional<UniformCase> of(const CollectiveCase& collective);

  bool is_rank_pe() const { return layout_.is_rank_pe(); }
  int size() const { return shape_.size; }
  int cube_count() const { return cube_count_; }
  const GroupShape& shape() const { return shape_; }
  const Way& way() const { return way_; }

  // The time of a plan's messages; nullopt if they differ in size, or chunks need several.
  std::optional<Time> message(AlgorithmPlan algorithm) const;
  Time whole() const { return way_.of(bytes()); }
  // True if the sender of `count` messages, one in each of as many steps, always has a credit.
  bool has_credits(Time message, int count) const;

  Bytes bytes() const { return collective_.n_elem * size_of(collective_.dtype); }
  bool fits_a_slot() const { return bytes() <= ipcq_.slot_bytes; }
  // With rank = PE a PE loads the tensor before the first message and stores it after the last:
  // this is that time; 0 otherwise.
  Time memory() const;
  // The time of the whole up the tree over cubes and down again, if there is no other SIP.
  std::optional<Time> over_cubes() const;

 private:
  UniformCase(const CollectiveCase& collective, Layout layout);

  const CollectiveCase collective_;
  const sim::IpcqParams ipcq_;
  const Layout layout_;
  const GroupShape shape_;
  int cube_count_ = 1;
  Way way_;
};

GroupShape make_group_shape(const Topology& topology, const Layout& layout) {
  if (layout.is_rank_pe()) return shape_of_pes(layout.world_size());
  std::vector<int> sips;
  for (int sip = 0; sip < layout.world_size(); ++sip) sips.push_back(sip);
  return shape_of_sips(topology, sips);
}

UniformCase::UniformCase(const CollectiveCase& collective, Layout layout)
    : collective_(collective),
      ipcq_(collective.config.ipcq()),
      layout_(std::move(layout)),
      shape_(make_group_shape(collective.topology, layout_)) {
  const Topology& topology = collective_.topology;
  if (!is_rank_pe()) cube_count_ = collective_.placement.cube_holders(topology);
  if (size() < 2) return;
  // All PEs of a cube are neighbours, and so are adjacent SIPs.
  way_ =
      way_between(topology, tcm(layout_.pe(shape_.ring.at(0))), tcm(layout_.pe(shape_.ring.at(1))));
}

std::optional<UniformCase> UniformCase::of(const CollectiveCase& collective) {
  const auto& [topology, placement, n_elem, dtype, config] = collective;
  Layout layout(topology, config);
  if (n_elem == 0 || config.ipcq().wait == sim::WaitPolicy::poll) return std::nullopt;
  if (config.protocol_for(n_elem * size_of(dtype)) != nullptr) return std::nullopt;
  if (layout.is_rank_pe()) {
    const bool own_memory = topology.cube.hbm.bandwidth.is_unlimited() ||
                            sim::Routing::hbm_slice_count(topology) == topology.pe_count();
    const bool in_a_cube = layout.world_size() > 1 && layout.world_size() <= topology.pe_count();
    const bool has_ways_of_corners = topology.cube.corner != LinkSpec{};
    const bool has_turns = topology.cube.hbm.turn_around > Time{0};
    if (!in_a_cube || !own_memory || has_ways_of_corners || has_turns ||
        config.ipcq().buffer_kind != sim::BufferKind::tcm) {
      return std::nullopt;
    }
    return UniformCase(collective, std::move(layout));
  }
  const int cubes = placement.cube_holders(topology);
  const int pes = placement.pe_holders(topology);
  if (pes > 1 || (cubes > 1 && (is_sharded(placement.cube) || layout.world_size() > 1))) {
    return std::nullopt;
  }
  return UniformCase(collective, std::move(layout));
}

std::optional<Time> UniformCase::message(AlgorithmPlan algorithm) const {
  Plan plan(Plan::Kind::all_reduce, 0);
  algorithm({shape_, Plan::Kind::all_reduce, 0, 0, {}}, plan);
  const int largest = plan.most_chunks();
  const bool are_equal = std::ranges::all_of(
      plan.moves, [&](const Move& move) { return move.chunks.count() == largest; });
  const std::int64_t chunk = collective_.n_elem / plan.chunk_count * largest;
  const std::int64_t most = std::min<std::int64_t>(
      ipcq_.slot_bytes / size_of(collective_.dtype),
      most_message_elements(collective_.topology, collective_.dtype, plan, plan.width, 1));
  const Bytes bytes = chunk * size_of(collective_.dtype);
  const Bytes one_slice = is_piped(plan) ? kLeastOfPipe : 2 * least_slice_of(ipcq_.slot_bytes);
  const bool has_several_slices = !is_rank_pe() && cube_count_ == 1 && bytes > one_slice;
  if (!are_equal || collective_.n_elem % plan.chunk_count != 0 || chunk > most ||
      has_several_slices) {
    return std::nullopt;
  }
  return way_.of(bytes);
}

// A slot is free again when the next message but depth is sent: it was taken out as soon as it had
// come.
bool UniformCase::has_credits(Time message, int count) const {
  const Time occupied = 2 * way_.alpha + message + way_.of(kCreditBytes);
  return ipcq_.depth >= count || ipcq_.depth * (way_.alpha + message) >= occupied;
}

Time UniformCase::memory() const {
  if (!is_rank_pe()) return Time{0};
  const sim::PeLocation& pe = layout_.pe(0);
  const Way way = way_between(collective_.topology, hbm(pe), tcm(pe));
  return 2 * (way.alpha + way.of(bytes()));
}

std::optional<Time> UniformCase::over_cubes() const {
  const Topology& topology = collective_.topology;
  const sim::Grid cubes = sim::cube_grid(topology);
  const Way way = way_between(topology, tcm({0, 0, 0}), tcm({0, cubes.w > 1 ? 1 : cubes.w, 0}));
  const int steps = grid_tree_depth(cubes, cube_count_, collective_.config.root());
  if (!message(plan_tree)) return std::nullopt;
  const Time one_way = steps * (way.alpha + way.of(bytes()));
  return one_way * (collective_.placement.cube == Shard::partial ? 2 : 1);
}

// `steps` equal messages of a plan follow each other, on links of their own.
std::optional<Time> in_steps(const UniformCase& uniform, int steps, AlgorithmPlan algorithm) {
  if (uniform.cube_count() > 1) return uniform.over_cubes();
  if (uniform.size() == 1) return Time{0};
  const auto message = uniform.message(algorithm);
  if (!message || !uniform.has_credits(*message, steps)) return std::nullopt;
  return steps * (uniform.way().alpha + *message) + uniform.memory();
}

// Between PEs that are ranks, loads and stores of some chunks meet messages of others.
std::optional<Time> ring_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || !uniform->shape().closes || uniform->is_rank_pe()) return std::nullopt;
  return in_steps(*uniform, 2 * (uniform->size() - 1), plan_ring);
}

// Two SIPs share the link.
std::optional<Time> both_rings_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || !uniform->shape().closes || uniform->is_rank_pe() || uniform->size() == 2) {
    return std::nullopt;
  }
  return in_steps(*uniform, 2 * (uniform->size() - 1), plan_both_rings);
}

// In one dimension that is a line, or a ring of an odd number.  In a grid, messages of different
// sizes meet on links; in a ring of an even number, halves do.
std::optional<Time> grid_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->is_rank_pe()) return std::nullopt;
  const GroupShape& shape = uniform->shape();
  if (shape.rows.size() > 1 && shape.columns.size() > 1) return std::nullopt;
  const Row& row = shape.rows.size() == 1 ? shape.rows.front() : shape.columns.front();
  if (row.wraps() && row.size() % 2 == 0) return std::nullopt;
  return in_steps(*uniform, 2 * row.depth(), plan_grid);
}

std::optional<Time> mesh_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->is_rank_pe()) return std::nullopt;
  const GroupShape& shape = uniform->shape();
  if (shape.rows.size() > 1 && shape.columns.size() > 1) return std::nullopt;
  return in_steps(*uniform, 2 * (uniform->size() - 1), plan_mesh);
}

// For P = 2^k every round of the reduction and of the broadcast is a step.  For 2^k - 1 the
// deepest node is missing, which saves one latency; the ports are as busy.
std::optional<Time> tree_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform) return std::nullopt;
  if (!uniform->is_rank_pe()) {
    int depth = 0;
    for (const Branch& branch : uniform->shape().tree) depth = std::max(depth, branch.distance);
    return in_steps(*uniform, 2 * depth, plan_tree);
  }
  int rounds = 0;
  while ((1 << rounds) < uniform->size()) ++rounds;
  const bool is_full = uniform->size() == 1 << rounds;
  if (!is_full && uniform->size() != (1 << rounds) - 1) return std::nullopt;
  const auto time = in_steps(*uniform, 2 * rounds, plan_tree);
  if (!time) return std::nullopt;
  return *time - (is_full ? Time{0} : 2 * uniform->way().alpha);
}

// Where all steps lead to neighbours over rings of 4, no two messages meet.
std::optional<Time> swing_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->is_rank_pe()) return std::nullopt;
  int steps = 0;
  for (const auto* lines : {&uniform->shape().rows, &uniform->shape().columns}) {
    const Row& line = lines->front();
    if (line.size() != 1 && (line.size() != 4 || !line.wraps())) return std::nullopt;
    steps += line.size() == 1 ? 0 : 2;
  }
  return in_steps(*uniform, steps, plan_swing_whole);
}

// In a full mesh all messages of a step are under way at once; through a switch a SIP's follow each
// other.
std::optional<Time> direct_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->is_rank_pe() || !uniform->shape().joins_all) return std::nullopt;
  if (uniform->cube_count() > 1) return uniform->over_cubes();
  if (uniform->size() == 1) return Time{0};
  const auto message = uniform->message(plan_direct);
  if (!message) return std::nullopt;
  const bool through_switch = collective.topology.system.topology == SipTopology::switched;
  const Time step = *message * (through_switch ? uniform->size() - 1 : 1);
  const Bytes chunk = collective.n_elem / uniform->size() * size_of(collective.dtype);
  const bool is_eager = chunk <= collective.config.eager_bytes();
  const Time news =
      is_eager ? Time{0} : uniform->way().alpha + uniform->way().of(kCreditBytes);  // of receives
  return news + 2 * (uniform->way().alpha + step);
}

// Each member sends one message to the switch, which adds them up, and gets the sum in one message
// back.
std::optional<Time> switch_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  const auto& sums = collective.topology.system.network_switch.sums;
  if (!uniform || uniform->is_rank_pe() || !sums || uniform->cube_count() > 1) return std::nullopt;
  if (uniform->size() == 1) return Time{0};
  const auto message = uniform->message(plan_through_switch);
  if (!message) return std::nullopt;
  const Time alpha = uniform->way().alpha - collective.topology.system.network_switch.core.latency;
  return alpha + 2 * *message + sums->latency + transfer_time(uniform->bytes(), sums->bandwidth);
}

std::optional<Time> hello_closed_form(const CollectiveCase& collective) {
  const auto uniform = UniformCase::of(collective);
  if (!uniform || uniform->cube_count() > 1 || !uniform->shape().closes ||
      !uniform->fits_a_slot()) {
    return std::nullopt;
  }
  if (uniform->size() == 1) return Time{0};
  return uniform->way().alpha + uniform->whole() + uniform->memory();
}

using Form = std::optional<Time> (*)(const CollectiveCase&);

const std::map<std::string_view, Form> kForms = {
    {"intercube_allreduce", grid_closed_form},
    {"ring_allreduce", ring_closed_form},
    {"bidirectional_ring_allreduce", both_rings_closed_form},
    {"mesh_allreduce", mesh_closed_form},
    {"tree_allreduce", tree_closed_form},
    {"hello_send", hello_closed_form},
    {"direct_allreduce", direct_closed_form},
    {"switch_allreduce", switch_closed_form},
    {"swing_whole_allreduce", swing_closed_form}};

}  // namespace

std::optional<Time> closed_form(const CollectiveCase& collective) {
  const auto form = kForms.find(collective.config.algorithm().name);
  return form == kForms.end() ? std::nullopt : form->second(collective);
}

}  // namespace kernbench::test
