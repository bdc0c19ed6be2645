#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "ccl/core/edge_disjoint_trees.h"
#include "ccl/core/plan.h"
#include "ccl/core/ring_order.h"
#include "ccl/core/spanning_tree.h"
#include "ccl/core/ways.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

namespace {

// The way from one position of a dimension to another that is not shorter backwards.
bool is_forward(int from, int to, int size) {
  return 2 * ((to - from + size) % size) <= size;
}

// Members in ascending order of `place`, their coordinate in a dimension of `size` nodes.
Row row_of_members(const std::vector<int>& members, const std::vector<int>& places, int size,
                   bool wraps) {
  const auto place = [&](int member) { return places[static_cast<std::size_t>(member)]; };
  const bool is_ring = wraps && members.size() > 2 &&
                       is_forward(place(members.back()), place(members.front()), size);
  return {members, is_ring};
}

std::vector<Row> make_lines(const GroupShape& shape, const std::vector<int>& along,
                            const std::vector<int>& across, int size, bool wraps) {
  std::vector<Row> lines;
  for (const int other : std::set(across.begin(), across.end())) {
    std::vector<int> members;
    for (int member = 0; member < shape.size; ++member) {
      if (across[static_cast<std::size_t>(member)] == other) members.push_back(member);
    }
    std::ranges::sort(members, {}, [&](int m) { return along[static_cast<std::size_t>(m)]; });
    lines.push_back(row_of_members(members, along, size, wraps));
  }
  return lines;
}

// A row of all members, and a column of each.
void make_one_row(GroupShape& shape) {
  shape.rows = {shape.ring};
  shape.columns.clear();
  for (int i = 0; i < shape.size; ++i) shape.columns.push_back(Row({shape.ring.at(i)}, false));
}

// Members of larger groups would take long to look at.
constexpr int kMostMembersOfTrees = 1024;

void add_disjoint_trees(GroupShape& shape) {
  if (shape.rows.size() == 1 || shape.columns.size() == 1) return;
  if (shape.size > kMostMembersOfTrees) return;
  std::vector<Row> lines = shape.rows;
  lines.insert(lines.end(), shape.columns.begin(), shape.columns.end());
  if (shape.is_box()) lines = shape.box.lines();
  shape.trees = std::make_shared<EdgeDisjointTrees>(shape.size, lines);
}

// True if members fill a rectangle: as many in each row, and each column, as there are.
bool is_rectangle(const GroupShape& shape) {
  const auto is_full = [](const std::vector<Row>& lines, std::size_t others) {
    return std::ranges::all_of(
        lines, [&](const Row& line) { return static_cast<std::size_t>(line.size()) == others; });
  };
  return is_full(shape.rows, shape.columns.size()) && is_full(shape.columns, shape.rows.size());
}

void add_binomial_tree(GroupShape& shape) {
  for (int member = 0; member < shape.size; ++member) {
    const BinomialTreeNode place = binomial_tree_node(shape.size, member);
    Branch& branch = shape.tree.emplace_back();
    for (int at = member; at != 0; at &= at - 1) ++branch.distance;
    branch.inner = place.parent.value_or(kNobody);
    branch.outer = place.children;
  }
}

// The rows and columns of SIPs; of three dimensions, columns follow the ring through two of them.
void add_lines(GroupShape& shape, const sim::SipNetwork& network, const std::vector<int>& sips) {
  const sim::Grid& grid = network.grid();
  const FlatGrid flat = flattened(grid);
  std::vector<int> row_of_line(flat.lines.size());
  for (std::size_t y = 0; y < flat.lines.size(); ++y) {
    row_of_line[static_cast<std::size_t>(flat.lines[y])] = static_cast<int>(y);
  }
  std::vector<int> xs;
  std::vector<int> ys;
  for (const int sip : sips) {
    const int place = sip % network.sips_in_node();
    xs.push_back(grid.x_of(place));
    ys.push_back(grid.d == 1 ? grid.y_of(place)
                             : row_of_line[static_cast<std::size_t>(place / grid.w)]);
  }
  shape.rows = make_lines(shape, xs, ys, flat.grid.w, grid.wraps);
  shape.columns = make_lines(shape, ys, xs, flat.grid.h, grid.wraps);
}

// The time of bytes on the slowest link along a dimension over that along the first one.  A PE's
// way to its SIP's links bounds both.
double slowness(const Topology& topology, const sim::SipNetwork& network, int dimension) {
  if (!network.has_unlike_links()) return 1;
  const Bandwidth inside = std::min(topology.cube.noc.bandwidth, topology.sip.ucie.bandwidth);
  const auto rate = [&](int of) {
    return static_cast<double>(std::min(network.slowest(of), inside).per_second);
  };
  return rate(0) / rate(dimension);
}

void add_tree_over_grid(GroupShape& shape) {
  const Row& row = shape.rows.front();
  const Row& column = shape.columns.front();
  const sim::Grid grid{row.size(), column.size(), row.wraps() || column.wraps()};
  const auto member_at = [&](int node) {
    return shape.rows[static_cast<std::size_t>(grid.y_of(node))].at(grid.x_of(node));
  };
  shape.tree.resize(static_cast<std::size_t>(shape.size));
  for (int node = 0; node < grid.count(); ++node) {
    const GridTreeNode place = grid_tree_node(grid, grid.count(), node, Root::center);
    Branch& branch = shape.tree[static_cast<std::size_t>(member_at(node))];
    branch.distance = grid_tree_distance(grid, grid.count(), node, Root::center);
    if (place.parent) branch.inner = member_at(grid.neighbour(node, *place.parent));
    for (const sim::Compass child : place.children) {
      branch.outer.push_back(member_at(grid.neighbour(node, child)));
    }
  }
}

// A SIP's place along each dimension of its node, and on each level of nodes.
std::vector<int> places_of(const sim::SipNetwork& network, int sip) {
  const sim::Grid& grid = network.grid();
  const int place = sip % network.sips_in_node();
  std::vector<int> places = {grid.x_of(place), grid.y_of(place), grid.z_of(place)};
  for (int level = 1; level <= network.level_count(); ++level) {
    places.push_back(network.node_of(sip, level) % network.nodes(level).count);
  }
  return places;
}

// Replaces places along a dimension by their numbers, in ascending order, and returns the row of
// these.
Row number_places(std::vector<std::vector<int>>& places, std::size_t dimension, int size,
                  bool wraps) {
  std::set<int> used;
  for (const std::vector<int>& of_member : places) used.insert(of_member[dimension]);
  const std::vector<int> sorted(used.begin(), used.end());
  for (std::vector<int>& of_member : places) {
    const auto found = std::ranges::lower_bound(sorted, of_member[dimension]);
    of_member[dimension] = static_cast<int>(found - sorted.begin());
  }
  std::vector<int> numbers(sorted.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  const bool is_ring = wraps && is_forward(sorted.back(), sorted.front(), size);
  return {std::move(numbers), is_ring};
}

MemberBox box_of_sips(const Topology& topology, const sim::SipNetwork& network,
                      const std::vector<int>& sips) {
  const sim::Grid& grid = network.grid();
  std::vector<std::vector<int>> places;
  for (const int sip : sips) places.push_back(places_of(network, sip));
  std::vector<MemberBox::Dimension> dimensions;
  std::vector<int> sizes = {grid.w, grid.h, grid.d};
  const auto of_grid = static_cast<std::ptrdiff_t>(sizes.size());
  for (int level = 1; level <= network.level_count(); ++level) {
    sizes.push_back(network.nodes(level).count);
  }
  for (const int size : sizes) {
    const bool is_of_nodes = std::ssize(dimensions) >= of_grid;
    const bool joins_all = is_of_nodes || network.joins_all();
    const auto dimension = static_cast<int>(dimensions.size());
    dimensions.push_back({number_places(places, dimensions.size(), size, joins_all || grid.wraps),
                          joins_all, is_of_nodes,
                          joins_all ? 1 : slowness(topology, network, dimension)});
  }
  return {std::move(dimensions), places};
}

// Members with the same places in each node, which may be no box of all levels.
MemberBox box_of_rows(const GroupShape& shape) {
  std::vector<MemberBox::Dimension> dimensions;
  for (const Row& line : {shape.rows.front(), shape.columns.front()}) {
    std::vector<int> numbers(static_cast<std::size_t>(line.size()));
    std::iota(numbers.begin(), numbers.end(), 0);
    dimensions.push_back({Row(std::move(numbers), true), true, !dimensions.empty(), 1});
  }
  std::vector<std::vector<int>> places;
  for (int member = 0; member < shape.size; ++member) {
    places.push_back({shape.column_of(member), shape.row_of(member)});
  }
  return {std::move(dimensions), places};
}

// Any order of nodes, and of SIPs that all join, is a ring; one that has those of a node together
// goes between nodes least.
GroupShape shape_of_nodes(const Topology& topology, const sim::SipNetwork& network,
                          const std::vector<int>& sips) {
  GroupShape shape;
  shape.size = static_cast<int>(sips.size());
  shape.node_count = network.sips_in_node(network.level_count() + 1);
  shape.joins_all = network.joins_all() || network.sips_in_node() == 1;
  shape.closes = true;
  shape.nodes.resize(sips.size());
  std::iota(shape.nodes.begin(), shape.nodes.end(), 0);
  std::vector<int> order(static_cast<std::size_t>(network.sips_in_node()));
  std::iota(order.begin(), order.end(), 0);
  if (!network.joins_all()) order = ring_order(network.grid());
  const bool wraps =
      network.joins_all() || are_neighbours(network.grid(), order.back(), order.front());
  std::vector<int> xs;
  std::vector<int> ys;
  for (const int sip : sips) {
    const auto found = std::ranges::find(order, sip % network.sips_in_node());
    xs.push_back(static_cast<int>(found - order.begin()));
    ys.push_back(network.node_of(sip));
  }
  std::vector<int> ring = shape.nodes;
  std::ranges::stable_sort(ring, {}, [&](int member) {
    const auto at = static_cast<std::size_t>(member);
    return std::pair(ys[at], network.joins_all() ? 0 : xs[at]);
  });
  shape.ring = {std::move(ring), true};
  if (network.has_nodes()) {
    shape.rows = make_lines(shape, xs, ys, network.sips_in_node(), wraps);
    shape.columns = make_lines(shape, ys, xs, network.node_count(), true);
  }
  shape.spans_nodes = shape.rows.size() > 1 && shape.columns.size() > 1 && is_rectangle(shape);
  if (!shape.spans_nodes) make_one_row(shape);
  if (shape.spans_nodes) {
    shape.box = box_of_sips(topology, network, sips);
    if (!shape.box.is_filled()) shape.box = box_of_rows(shape);
  }
  add_binomial_tree(shape);
  add_disjoint_trees(shape);
  return shape;
}

}  // namespace

// Row

int Row::position_of(int member) const {
  return static_cast<int>(std::ranges::find(members_, member) - members_.begin());
}

Branch Row::branch(int position, int target, int ahead) const {
  const int behind = size() - 1 - ahead;
  const int forward = (position - target + size()) % size();
  const int backward = size() - forward;
  Branch branch;
  if (forward == 0) {
    if (ahead > 0) branch.outer.push_back(at(target + 1));
    if (behind > 0) branch.outer.push_back(at(target - 1));
  } else if (forward <= ahead) {
    branch = {forward, at(position - 1), {}};
    if (forward < ahead) branch.outer.push_back(at(position + 1));
  } else {
    branch = {backward, at(position + 1), {}};
    if (backward < behind) branch.outer.push_back(at(position - 1));
  }
  return branch;
}

int Row::nearest_ahead(int target, bool ties) const {
  if (!wraps()) return size() - 1 - target;
  return ties ? size() / 2 : (size() - 1) / 2;
}

// GroupShape

int GroupShape::place_of(int from, int member) const {
  if (place_on_grid) return place_on_grid(from, member);
  return (ring.position_of(member) - ring.position_of(from) + size) % size;
}

int GroupShape::column_of(int member) const {
  for (std::size_t x = 0; x < columns.size(); ++x) {
    if (columns[x].position_of(member) < columns[x].size()) return static_cast<int>(x);
  }
  return kNobody;
}

int GroupShape::row_of(int member) const {
  for (std::size_t y = 0; y < rows.size(); ++y) {
    if (rows[y].position_of(member) < rows[y].size()) return static_cast<int>(y);
  }
  return kNobody;
}

std::vector<int> shift_to_first(const Topology& topology, const std::vector<int>& sips) {
  const Topology::System& system = topology.system;
  bool are_alike = !sips.empty() && system.unlike_links.empty() && system.nodes.sips_per_link == 1;
  for (const NodeLevel& level : system.nodes.inner) {
    are_alike = are_alike && level.sips_per_link == 1;
  }
  const sim::Grid grid = sim::sip_grid(system);
  const bool has_edges = system.topology == SipTopology::mesh_2d_no_wrap;
  if (!are_alike || (has_edges && system.node_count() > 1)) return sips;
  const sim::SipNetwork network(topology);
  int x = grid.w;
  int y = grid.h;
  for (const int sip : sips) {
    x = std::min(x, grid.x_of(sip));
    y = std::min(y, grid.y_of(sip));
  }
  std::vector<int> result;
  for (const int sip : sips) {
    result.push_back(has_edges ? grid.index_of(grid.x_of(sip) - x, grid.y_of(sip) - y)
                               : network.place_seen_from(sips.front(), sip));
  }
  return result;
}

// A group and its translations have the same plans.
GroupShape shape_of_sips(const Topology& topology, const std::vector<int>& of_group) {
  const std::vector<int> sips = shift_to_first(topology, of_group);
  const sim::SipNetwork network(topology);
  const bool spans_nodes = std::ranges::any_of(
      sips, [&](int sip) { return network.node_of(sip) != network.node_of(sips.front()); });
  if (network.joins_all() || spans_nodes) return shape_of_nodes(topology, network, sips);
  const sim::Grid& grid = network.grid();
  const int first = network.node_of(sips.front()) * network.sips_in_node();
  GroupShape shape;
  shape.size = static_cast<int>(sips.size());
  const std::vector<int> order = ring_order(grid);
  shape.node_count = static_cast<int>(order.size());
  std::vector<int> member_on(order.size(), kNobody);
  for (int member = 0; member < shape.size; ++member) {
    member_on[static_cast<std::size_t>(sips[static_cast<std::size_t>(member)] - first)] = member;
  }
  std::vector<int> ring;
  for (int node = 0; node < shape.node_count; ++node) {
    const int member = member_on[static_cast<std::size_t>(order[static_cast<std::size_t>(node)])];
    if (member == kNobody) continue;
    ring.push_back(member);
    shape.nodes.push_back(node);
  }
  shape.closes = are_neighbours(grid, order.back(), order.front());
  const bool wraps = shape.closes && shape.size > 2 &&
                     is_forward(shape.nodes.back(), shape.nodes.front(), shape.node_count);
  shape.ring = {std::move(ring), wraps};

  add_lines(shape, network, sips);
  // Columns of three dimensions go along two of them.
  shape.column_slowness = std::max(slowness(topology, network, 1), slowness(topology, network, 2));
  if (!is_rectangle(shape)) make_one_row(shape);
  add_tree_over_grid(shape);
  MemberBox box = box_of_sips(topology, network, sips);
  // A column through two dimensions of two members each has all of their links.
  const bool is_more =
      box.dimension_count() > 2 && box.dimension(1).size() * box.dimension(2).size() > 4;
  if (is_more) shape.box = std::move(box);
  add_disjoint_trees(shape);
  shape.ways = ways_of_sips(topology, sips);
  if (grid.wraps) {
    shape.place_on_grid = [grid, first, sips](int from, int member) {
      const auto node = [&](int of) { return sips[static_cast<std::size_t>(of)] - first; };
      return grid.place_seen_from(node(from), node(member));
    };
  }
  return shape;
}

GroupShape shape_of_pes(int count) {
  GroupShape shape;
  shape.size = count;
  shape.is_of_pes = true;
  std::vector<int> members(static_cast<std::size_t>(count));
  std::iota(members.begin(), members.end(), 0);
  shape.nodes = members;
  shape.node_count = count;
  shape.ring = {members, true};
  shape.closes = true;
  const sim::Grid grid = square_grid(count);
  std::vector<int> xs;
  std::vector<int> ys;
  for (int i = 0; i < count; ++i) {
    xs.push_back(grid.x_of(i));
    ys.push_back(grid.y_of(i));
  }
  shape.rows = make_lines(shape, xs, ys, grid.w, false);
  shape.columns = make_lines(shape, ys, xs, grid.h, false);
  add_binomial_tree(shape);
  add_disjoint_trees(shape);
  return shape;
}

sim::Grid square_grid(int count) {
  int h = 1;
  for (int divisor = 2; divisor * divisor <= count; ++divisor) {
    if (count % divisor == 0) h = divisor;
  }
  return {count / h, h, false};
}

}  // namespace kernbench::ccl
