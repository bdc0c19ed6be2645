#include "ccl/algorithms/over_cubes.h"

#include <utility>

#include "ccl/core/spanning_tree.h"

namespace kernbench::ccl {

namespace {

Branch branch_of_cube(const CubeTree& tree, int member, int cube) {
  const GridTreeNode node = grid_tree_node(tree.cubes, tree.count, cube, tree.root);
  const int first = member * tree.count;
  Branch branch;
  branch.distance = grid_tree_distance(tree.cubes, tree.count, cube, tree.root);
  if (node.parent) branch.inner = first + tree.cubes.neighbour(cube, *node.parent);
  for (const sim::Compass child : node.children) {
    branch.outer.push_back(first + tree.cubes.neighbour(cube, child));
  }
  return branch;
}

// A move of the exchange on the root's cube: summands of the other cubes come first, and results go
// there too.
Move with_cubes(Move move, const Branch& branch, int root, const CubeTree& tree) {
  for (auto* nodes : {&move.from, &move.to}) {
    for (int& member : *nodes) {
      if (member != kSwitch) member = member * tree.count + root;
    }
  }
  if (move.has_source && tree.has_sums) {
    move.from.insert(move.from.begin(), branch.outer.begin(), branch.outer.end());
  }
  if (move.stores) move.to.insert(move.to.end(), branch.outer.begin(), branch.outer.end());
  return move;
}

}  // namespace

void plan_over_cubes(AlgorithmPlan exchange, const PlanRequest& request, Plan& plan) {
  const CubeTree& tree = request.cubes;
  const int member = request.self / tree.count;
  const int root = root_of(tree.cubes, tree.count, tree.root);
  const int depth = grid_tree_depth(tree.cubes, tree.count, tree.root);
  const Branch branch = branch_of_cube(tree, member, request.self % tree.count);

  Plan whole(request.kind, member);
  exchange({request.shape, request.kind, request.root, member, tree}, whole);
  plan.nodes_per_member = tree.count;
  plan.chunk_count = whole.chunk_count;
  plan.length = whole.length + 2 * depth;
  // Where all moves come at once, so do the sums of other cubes and the copies for them.
  const bool is_piped = whole.slices_at_once == 1 && whole.slice_interval == 1;
  plan.width = whole.width * (is_piped && tree.has_sums ? 3 : 1);
  plan.slices_at_once = whole.slices_at_once;
  plan.slice_interval = whole.slice_interval;
  plan.channels = whole.channels;
  plan.halves = whole.halves;
  const bool has_result = request.kind == Plan::Kind::broadcast && member == request.root;
  for (Move& move : whole.moves) {
    move.time += depth;
    move.stores = move.stores && !has_result;  // all cubes of a broadcast's root have copies
    if (branch.inner == kNobody) {
      plan.moves.push_back(with_cubes(std::move(move), branch, root, tree));
      continue;
    }
    if (move.has_source && tree.has_sums) {
      plan.reduce(move.chunks, branch, move.time).stage = move.stage;
    }
    if (move.stores) plan.broadcast(move.chunks, branch, move.time).stage = move.stage;
  }
}

}  // namespace kernbench::ccl
