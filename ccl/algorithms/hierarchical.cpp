#include "ccl/algorithms/hierarchical.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kernbench::ccl {

namespace {

constexpr int kDepth = 2;  // of a tree of data that are not cut: to the node's gate, to the rest

void add_others(const Row& row, int self, std::vector<int>& members) {
  const int own = row.position_of(self);
  for (int i = 1; i < row.size(); ++i) members.push_back(row.at(own + i));
}

// An order in which dimensions of the box are passed, and who is reached ahead on rings.
struct Passage {
  std::vector<int> order;
  bool ties_ahead = true;
};

// Each dimension of a grid in nodes is passed first by an equal share of the data, whose halves go
// either way to the opposite side of a ring.
std::vector<Passage> list_passages(const MemberBox& box) {
  int of_grid = 0;
  bool has_ties = false;
  for (int i = 0; i < box.dimension_count(); ++i) {
    const MemberBox::Dimension& dimension = box.dimension(i);
    if (dimension.joins_all) continue;
    ++of_grid;
    has_ties = has_ties || (dimension.row.wraps() && dimension.size() % 2 == 0);
  }
  std::vector<int> order(static_cast<std::size_t>(box.dimension_count()));
  std::iota(order.begin(), order.end(), 0);
  std::vector<Passage> passages;
  for (int first = 0; first < std::max(of_grid, 1); ++first) {
    for (const bool ahead : {true, false}) {
      if (ahead || has_ties) passages.push_back({order, ahead});
    }
    std::rotate(order.begin(), order.begin() + std::min(of_grid, 1), order.begin() + of_grid);
  }
  return passages;
}

int depth_of(const MemberBox& box) {
  int depth = 0;
  for (int i = 0; i < box.dimension_count(); ++i) depth += box.dimension(i).depth();
  return depth;
}

// A member's place in the tree of a target.  Data go away from it along the dimensions in the
// reverse of their order, so that those of the outermost level, which takes longest, go first.
Branch branch_towards(const MemberBox& box, const Passage& passage, int self, int target) {
  Branch branch;
  for (const int dimension : passage.order) {
    const int to = box.place_of(target, dimension);
    const Branch along =
        box.dimension(dimension).branch(box.place_of(self, dimension), to, passage.ties_ahead);
    branch.distance += along.distance;
    if (branch.inner != kNobody) continue;
    std::vector<int> outer;
    for (const int place : along.outer) outer.push_back(box.with_place(self, dimension, place));
    branch.outer.insert(branch.outer.begin(), outer.begin(), outer.end());
    if (along.inner != kNobody) branch.inner = box.with_place(self, dimension, along.inner);
  }
  return branch;
}

// The order of a target's moves among those of one time.  Both ends of a link agree on it: on a
// ring targets are counted without a wrap between the two.
int order_of(const MemberBox& box, const Passage& passage, int self, int target) {
  int order = 0;
  int stride = 1;
  for (int i = 0; i < box.dimension_count(); ++i) {
    const MemberBox::Dimension& dimension = box.dimension(i);
    const int at = box.place_of(self, i);
    const int to = box.place_of(target, i);
    const int size = dimension.size();
    const int ahead = dimension.row.nearest_ahead(to, passage.ties_ahead);
    order += stride * (dimension.joins_all ? (to - at + size) % size
                                           : size + dimension.row.offset(at, to, ahead));
    stride *= dimension.joins_all ? size : 2 * size;
  }
  return order;
}

// Members by node, counted from the root's, and by their place in it.
class Nodes {
 public:
  Nodes(const GroupShape& shape, int root) : shape_(shape), root_(root) {}

  int count() const { return static_cast<int>(shape_.rows.size()); }
  int places() const { return static_cast<int>(shape_.columns.size()); }
  int root() const { return root_; }
  int node_of(int member) const {
    return (shape_.row_of(member) - shape_.row_of(root_) + count()) % count();
  }
  int place_of(int member) const { return shape_.column_of(member); }
  const Row& row_of(int member) const {
    return shape_.rows[static_cast<std::size_t>(shape_.row_of(member))];
  }
  int at(int node, int place) const {
    return shape_.columns[static_cast<std::size_t>(place)].at(shape_.row_of(root_) + node);
  }

 private:
  const GroupShape& shape_;
  const int root_;
};

// A member's place in the tree of a chunk: from the root to the member of its node with the chunk's
// place, on to those of further nodes one by one, and from each of these to the rest of its node.
Branch branch_of_chunk(const Nodes& nodes, int self, int place) {
  const int node = nodes.node_of(self);
  const int gate = nodes.at(node, place);
  const int to_gate = node + (nodes.at(0, place) == nodes.root() ? 0 : 1);
  if (self == nodes.root() && self != gate) return {0, kNobody, {gate}};
  if (self != gate) return {to_gate + 1, gate, {}};
  Branch branch;
  branch.distance = to_gate;
  branch.inner = node > 0 ? nodes.at(node - 1, place) : nodes.root();
  if (node + 1 < nodes.count()) branch.outer.push_back(nodes.at(node + 1, place));
  add_others(nodes.row_of(self), self, branch.outer);
  std::erase(branch.outer, nodes.root());
  return branch;
}

// The same of the chunk with the root's place.  The root sends each member of its node a chunk, so
// this one goes there from member to member: else its link would carry nearly twice as much.
Branch branch_of_roots_chunk(const Nodes& nodes, int self, int place) {
  if (nodes.node_of(self) > 0) return branch_of_chunk(nodes, self, place);
  const Row& node = nodes.row_of(nodes.root());
  const int own = node.position_of(self);
  Branch branch;
  branch.distance = (own - node.position_of(nodes.root()) + node.size()) % node.size();
  if (self != nodes.root()) branch.inner = node.at(own - 1);
  if (self == nodes.root()) branch.outer.push_back(nodes.at(1, place));
  if (branch.distance + 1 < node.size()) branch.outer.push_back(node.at(own + 1));
  return branch;
}

// The same of data that are not cut: from the root straight to its place in each node, and there
// to the rest.
Branch branch_of_whole(const Nodes& nodes, int self) {
  const int gate = nodes.at(nodes.node_of(self), nodes.place_of(nodes.root()));
  if (self != gate) return {gate == nodes.root() ? 1 : kDepth, gate, {}};
  Branch branch;
  if (self != nodes.root()) branch = {1, nodes.root(), {}};
  for (int node = 1; node < nodes.count() && self == nodes.root(); ++node) {
    branch.outer.push_back(nodes.at(node, nodes.place_of(self)));
  }
  add_others(nodes.row_of(self), self, branch.outer);
  return branch;
}

void plan_from_root(const PlanRequest& request, Plan& plan) {
  const Nodes nodes(request.shape, request.root);
  const bool is_reduce = request.kind == Plan::Kind::reduce;
  plan.chunk_count = nodes.places();
  plan.length = std::max(nodes.count() + 2, nodes.places());
  plan.width = nodes.places();
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  for (int place = 0; place < nodes.places(); ++place) {
    const bool is_of_root = place == nodes.place_of(request.root);
    Branch branch = is_of_root ? branch_of_roots_chunk(nodes, request.self, place)
                               : branch_of_chunk(nodes, request.self, place);
    if (is_reduce) std::ranges::reverse(branch.outer);
    Move& move = is_reduce ? plan.reduce({place, place + 1}, branch, plan.length - 1)
                           : plan.broadcast({place, place + 1}, branch, 0);
    // The root and the member of its node with a place send each other that chunk and the root's.
    move.stage = (place - nodes.place_of(request.root) + nodes.places()) % nodes.places();
  }
}

// Blocks between the root and another node go by way of the member of the root's node that has the
// same place in it as the other end: so all links of the root's node carry a share.
void plan_to_root(const PlanRequest& request, Plan& plan) {
  const Nodes nodes(request.shape, request.root);
  const bool is_gather = request.kind == Plan::Kind::gather;
  plan.length = 3;
  plan.width = nodes.count() * nodes.places();
  for (int member = 0; member < request.shape.size; ++member) {
    std::vector<int> stops = {request.root};
    const int gate = nodes.at(0, nodes.place_of(member));
    if (gate != request.root && gate != member) stops.push_back(gate);
    if (member != request.root) stops.push_back(member);
    if (is_gather) std::ranges::reverse(stops);
    const auto own = std::ranges::find(stops, request.self);
    if (own == stops.end()) continue;
    Move& move = plan.moves.emplace_back();
    move.time = static_cast<int>(own - stops.begin());
    move.stage = (member - request.root + request.shape.size) % request.shape.size;
    move.chunks = {0, 1, stops.front(), stops.back()};
    move.has_source = own == stops.begin();
    if (!move.has_source) move.from = {*(own - 1)};
    move.stores = own + 1 == stops.end();
    if (!move.stores) move.to = {*(own + 1)};
  }
}

}  // namespace

void plan_hierarchical(const PlanRequest& request, Plan& plan) {
  if (has_pairs(request.kind)) return plan_to_root(request, plan);
  if (traits_of(request.kind).root != distributed::Root::none) {
    return plan_from_root(request, plan);
  }
  const MemberBox& box = request.shape.box;
  const int size = request.shape.size;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  const std::vector<Passage> passages = list_passages(box);
  const auto passage_count = static_cast<int>(passages.size());
  const int depth = depth_of(box);
  plan.chunk_count = passage_count * (sums ? size : 1);
  plan.channels = passage_count;
  plan.length = (sums ? 2 : 1) * depth + 1;
  plan.width = size * passage_count;
  plan.slices_at_once = 4;  // so that links within nodes and between them are busy together
  plan.slice_interval = 1;
  for (int i = 0; i < passage_count; ++i) {
    for (int target = 0; target < size; ++target) {
      const int chunk = sums ? i * size + target : i;
      const std::size_t before = plan.moves.size();
      const Passage& passage = passages[static_cast<std::size_t>(i)];
      const Branch branch = branch_towards(box, passage, request.self, target);
      Branch up = branch;
      std::ranges::reverse(up.outer);  // sums come from the nearest behind first, as it sends first
      plan.along(target, {chunk, chunk + 1}, up, branch, depth);
      const int stage = box.dimension(0).joins_all ? (target - request.self + size) % size
                                                   : order_of(box, passage, request.self, target);
      for (std::size_t k = before; k < plan.moves.size(); ++k) plan.moves[k].stage = stage;
    }
  }
}

void plan_hierarchical_whole(const PlanRequest& request, Plan& plan) {
  const Branch branch = branch_of_whole(Nodes(request.shape, request.root), request.self);
  plan.length = kDepth + 1;
  plan.slices_at_once = 4;
  plan.slice_interval = 1;
  request.kind == Plan::Kind::reduce ? plan.reduce({}, branch, kDepth)
                                     : plan.broadcast({}, branch, 0);
}

std::string_view misfit_of_hierarchical(const GroupShape& shape) {
  return shape.spans_nodes ? ""
                           : "it needs two or more SIPs of several nodes, the same places in each";
}

}  // namespace kernbench::ccl
