#include "ccl/algorithms/hierarchical.h"

#include <algorithm>
#include <vector>

#include "ccl/algorithms/box.h"

namespace kernbench::ccl {

namespace {

constexpr int kDepth = 2;  // of a tree of data that are not cut: to the node's gate, to the rest

void add_others(const Row& row, int self, std::vector<int>& members) {
  const int own = row.position_of(self);
  for (int i = 1; i < row.size(); ++i) members.push_back(row.at(own + i));
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
    // Links between nodes take longest.  A scatter therefore sends to the root's own node, which is
    // 0, last; a gather takes that node's blocks first, since they come first.
    const int first = is_gather ? 0 : 1;
    const int node = (nodes.node_of(member) + nodes.count() - first) % nodes.count();
    move.stage = node * nodes.places() + nodes.place_of(member);
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
  plan_box(request, plan);
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
