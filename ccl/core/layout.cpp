#include "ccl/core/layout.h"

#include <algorithm>
#include <numeric>

#include "ccl/core/plan.h"
#include "ccl/core/ring_order.h"
#include "ccl/core/spanning_tree.h"
#include "runtime/distributed/folded_ranks.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/ipcq.h"
#include "sim_engine/components/processing_element.h"
#include "sim_engine/topology/direction.h"

namespace kernbench::ccl {

namespace {

tl::Port port_towards(sim::Compass side, bool global, int index = 0) {
  return {global ? sim::to_global(side) : sim::to_direction(side), index};
}

// Returns the side of `from` on which `to` is its neighbour; nullopt if they are not neighbours.
std::optional<sim::Compass> find_side(const sim::Grid& grid, int from, int to) {
  for (int i = 0; i < sim::kCompassCount; ++i) {
    const auto side = static_cast<sim::Compass>(i);
    if (grid.neighbour(from, side) == to) return side;
  }
  return std::nullopt;
}

std::vector<int> first_numbers(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

Layout::Layout(const Topology& topology, const Config& config)
    : topology_(topology), participants_(config.participants()), wanted_(config.neighbours()) {
  const std::optional<int> world_size = config.world_size();
  is_rank_pe_ = world_size.has_value();
  if (world_size) {
    lay_out_pes(*world_size);
  } else {
    const sim::Grid sips = sim::sip_grid(topology_);
    for (int sip = 0; sip < sips.count(); ++sip) pes_.push_back({sip, 0, 0});
    lay_out_sips(sips, first_numbers(sips.count()));
  }
  most_queues_ = count_queues();
}

Layout::Layout(const Topology& topology, const Config& config, const std::vector<int>& sips)
    : topology_(topology), participants_(config.participants()), wanted_(config.neighbours()) {
  for (const int sip : sips) pes_.push_back({sip, 0, 0});
  const GroupShape shape = shape_of_sips(topology, sips);
  std::vector<int> at_node;
  for (const Row& row : shape.rows) {
    for (int x = 0; x < row.size(); ++x) at_node.push_back(row.at(x));
  }
  const sim::Grid grid{shape.rows.front().size(), shape.columns.front().size(),
                       sim::sip_grid(topology).wraps};
  lay_out_sips(grid, std::move(at_node));
  most_queues_ = count_queues();
}

void Layout::lay_out_sips(const sim::Grid& sips, std::vector<int> at_node) {
  const bool global = participants_ == Participants::shard_holders;
  at_node_ = std::move(at_node);
  places_.resize(at_node_.size());
  join_grid(sips, global, 0);
  join_ring(sips, global);
  add_tree_of_grid(sips, global);
}

void Layout::lay_out_pes(int count) {
  const int per_cube = topology_.pe_count();
  const int per_sip = per_cube * topology_.cube_count();
  const int all = per_sip * topology_.system.sip_count;
  // More ranks than a cube has PEs must fill whole cubes; more than a SIP has, whole SIPs.
  const int unit = count <= per_cube ? 1 : count <= per_sip ? per_cube : per_sip;
  if (count > all || count % unit != 0) {
    throw ConfigError(
        "KB-Y041",
        "world_size {} does not fit topology '{}', whose {} PEs lie {} to a cube and {} to a SIP; "
        "give at most {}, or a multiple of {} up to {}, or of {} up to {}",
        count, topology_.name, all, per_cube, per_sip, per_cube, per_cube, per_sip, per_sip, all);
  }
  at_node_ = first_numbers(count);
  places_.resize(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    pes_.push_back({i / per_sip, i % per_sip / per_cube, i % per_cube});
  }
  int port_index = 0;
  if (wants(Neighbours::ring)) join_pe_ring(port_index++);
  if (wants(Neighbours::grid)) join_grid(square_grid(count), false, port_index++);
  if (wants(Neighbours::tree)) join_pe_tree(port_index);
}

int Layout::find_participant(const sim::PeLocation& pe) const {
  if (!is_rank_pe_) {
    return static_cast<int>(std::ranges::find(pes_, pe.sip, &sim::PeLocation::sip) - pes_.begin());
  }
  return static_cast<int>(sim::pe_number(topology_, pe));
}

TensorOptions Layout::placement(const TensorOptions& options) const {
  const int count = world_size();
  const int per_cube = topology_.pe_count();
  const int per_sip = per_cube * topology_.cube_count();
  TensorOptions placed = options;
  placed.dp = {.cube = Shard::column_wise,
               .pe = Shard::column_wise,
               .num_cubes = std::clamp(count / per_cube, 1, topology_.cube_count()),
               .num_pes = std::min(count, per_cube)};
  placed.num_sips = std::max(count / per_sip, 1);
  return placed;
}

// Joins east, west, north and south on a grid.  In a dimension of two that wraps, both directions
// lead to the same neighbour, over separate queues.
void Layout::join_grid(const sim::Grid& grid, bool global, int port_index) {
  for (int node = 0; node < grid.count(); ++node) {
    const int from = at_node_[static_cast<std::size_t>(node)];
    GridPlace& place =
        places_[static_cast<std::size_t>(from)].grid.emplace(GridPlace{grid, node, {}});
    for (int i = 0; i < sim::kCompassCount; ++i) {
      const auto side = static_cast<sim::Compass>(i);
      const tl::Port out = port_towards(side, global, port_index);
      place.ports[static_cast<std::size_t>(i)] = out;
      const int neighbour = grid.neighbour(node, side);
      if (neighbour >= 0) {
        connect(from, out, at_node_[static_cast<std::size_t>(neighbour)],
                port_towards(sim::opposite(side), global, port_index));
      }
    }
  }
}

// Joins the ring along the queues of the grid.  If its last node is not a neighbour of its first,
// or only over the queue that the ring uses already, they get queues of their own: east[1],
// west[1].
void Layout::join_ring(const sim::Grid& grid, bool global) {
  const std::vector<int> order = ring_order(grid);
  const int size = static_cast<int>(order.size());
  const auto node_at = [&](int i) { return order[static_cast<std::size_t>(i % size)]; };
  const auto participant_at = [&](int i) { return at_node_[static_cast<std::size_t>(node_at(i))]; };
  for (int i = 0; i < size; ++i) {
    places_[static_cast<std::size_t>(participant_at(i))].ring = {i, size, {}, {}};
  }
  for (int i = 0; size > 1 && i < size; ++i) {
    const int from = participant_at(i);
    const int to = participant_at(i + 1);
    const bool closes = i == size - 1;
    std::optional<sim::Compass> side = find_side(grid, node_at(i), node_at(i + 1));
    if (closes && size == 2 && !grid.wraps) side.reset();
    const sim::Compass way = side.value_or(sim::Compass::east);
    const tl::Port out = port_towards(way, global, side ? 0 : 1);
    const tl::Port in = port_towards(sim::opposite(way), global, side ? 0 : 1);
    places_[static_cast<std::size_t>(from)].ring->next = out;
    places_[static_cast<std::size_t>(to)].ring->previous = in;
    if (!side && wants(Neighbours::ring)) {
      connect(from, out, to, in);
      connect(to, in, from, out);
    }
  }
}

void Layout::add_tree_of_grid(const sim::Grid& grid, bool global) {
  for (int node = 0; node < grid.count(); ++node) {
    const GridTreeNode tree = grid_tree_node(grid, grid.count(), node, Root::center);
    const auto at = static_cast<std::size_t>(at_node_[static_cast<std::size_t>(node)]);
    TreePlace& place = places_[at].tree.emplace();
    if (tree.parent) place.parent = port_towards(*tree.parent, global);
    for (const sim::Compass child : tree.children) {
      place.children.push_back(port_towards(child, global));
    }
  }
}

void Layout::join_pe_ring(int port_index) {
  const int size = world_size();
  for (int i = 0; i < size; ++i) {
    const tl::Port east{tl::Direction::east, port_index};
    const tl::Port west{tl::Direction::west, port_index};
    places_[static_cast<std::size_t>(i)].ring = {i, size, east, west};
    if (size < 2) continue;
    connect(i, east, (i + 1) % size, west);
    connect((i + 1) % size, west, i, east);
  }
}

void Layout::join_pe_tree(int port_index) {
  const int size = world_size();
  for (Place& place : places_) place.tree.emplace();
  for (int i = 0; i < size; ++i) {
    const std::vector<int> children = binomial_tree_node(size, i).children;
    for (std::size_t k = 0; k < children.size(); ++k) {
      const tl::Port down{tl::Direction::south, port_index + static_cast<int>(k)};
      const tl::Port up{tl::Direction::north, port_index};
      places_[static_cast<std::size_t>(i)].tree->children.push_back(down);
      places_[static_cast<std::size_t>(children[k])].tree->parent = up;
      connect(i, down, children[k], up);
      connect(children[k], up, i, down);
    }
  }
}

// Neighbouring cubes: each PE and the PEs of the same number, with its first queues.
template <class Visit>
void Layout::for_each_queue_of_cubes(const Visit& visit) const {
  const sim::Grid cubes = sim::cube_grid(topology_);
  for (const sim::PeLocation& first : pes_) {
    for (int cube = 0; cube < cubes.count(); ++cube) {
      for (int i = 0; i < sim::kCompassCount; ++i) {
        const auto side = static_cast<sim::Compass>(i);
        const int neighbour = cubes.neighbour(cube, side);
        for (int pe = 0; neighbour >= 0 && pe < topology_.pe_count(); ++pe) {
          visit(sim::IpcqChannel::Ends{{first.sip, cube, pe},
                                       sim::to_direction(side),
                                       {first.sip, neighbour, pe},
                                       sim::to_direction(sim::opposite(side))});
        }
      }
    }
  }
}

template <class Visit>
void Layout::for_each_queue(const Visit& visit) const {
  const bool lanes = !is_rank_pe_ && participants_ == Participants::shard_holders;
  const int cubes = lanes ? topology_.cube_count() : 1;
  const int pes = lanes ? topology_.pe_count() : 1;
  if (lanes) for_each_queue_of_cubes(visit);
  for (int cube = 0; cube < cubes; ++cube) {
    for (int number = 0; number < pes; ++number) {
      for (const Edge& edge : edges_) {
        sim::PeLocation from = pe(edge.from);
        sim::PeLocation to = pe(edge.to);
        if (lanes) from = {from.sip, cube, number};
        if (lanes) to = {to.sip, cube, number};
        visit(sim::IpcqChannel::Ends{from, edge.out, to, edge.in});
      }
    }
  }
}

std::optional<tl::Port> Layout::port_between(const sim::PeLocation& from,
                                             const sim::PeLocation& to) const {
  const bool lanes = !is_rank_pe_ && participants_ == Participants::shard_holders;
  if (lanes && from.sip == to.sip) {
    const auto side = find_side(sim::cube_grid(topology_), from.cube, to.cube);
    if (!side || from.pe != to.pe) return std::nullopt;
    return sim::to_direction(*side);
  }
  const auto edge = first_edge_.find({find_participant(from), find_participant(to)});
  const bool is_joined = edge != first_edge_.end() &&
                         (lanes ? from.cube == to.cube && from.pe == to.pe
                                : pe(edge->first.first) == from && pe(edge->first.second) == to);
  if (!is_joined) return std::nullopt;
  return edges_[edge->second].out;
}

void Layout::install(sim::Machine& machine, const sim::IpcqParams& params) const {
  // SIPs of ranks that stand for others have the queues alike that plans need; kernels by hand,
  // which may use others, are refused there.
  if (machine.folding().is_on() && is_rank_pe_) {
    distributed::refuse_unlike("the backend ahbm", "its ranks are PEs, which have one driver");
  }
  for_each_queue([&](const sim::IpcqChannel::Ends& ends) {
    if (machine.folding().is_simulated(ends.from.sip)) machine.connect(ends, params);
  });
}

Layout::NamesByPe Layout::install_beside(sim::Machine& machine,
                                         const sim::IpcqParams& params) const {
  NamesByPe names;
  const auto port_of = [&](const sim::PeLocation& pe, tl::Port name) {
    if (const sim::Port* known = names[pe].find(name)) return *known;
    const sim::Port free = machine.pe(pe).ipcq().unused_port(name.direction);
    names[pe].add(name, free);
    return free;
  };
  for_each_queue([&](sim::IpcqChannel::Ends ends) {
    ends.out = port_of(ends.from, ends.out);
    ends.in = port_of(ends.to, ends.in);
    machine.connect(ends, params);
  });
  return names;
}

int Layout::count_queues() const {
  std::vector<int> queues(places_.size(), 0);
  for (const Edge& edge : edges_) ++queues[static_cast<std::size_t>(edge.to)];
  int most = *std::ranges::max_element(queues);
  if (is_rank_pe_ || participants_ != Participants::shard_holders) return most;
  const sim::Grid cubes = sim::cube_grid(topology_);
  int most_cubes = 0;
  for (int cube = 0; cube < cubes.count(); ++cube) {
    int count = 0;
    for (int i = 0; i < sim::kCompassCount; ++i) {
      count += cubes.neighbour(cube, static_cast<sim::Compass>(i)) >= 0;
    }
    most_cubes = std::max(most_cubes, count);
  }
  return most + most_cubes;
}

bool Layout::wants(Neighbours neighbours) const {
  return std::ranges::find(wanted_, neighbours) != wanted_.end();
}

}  // namespace kernbench::ccl
