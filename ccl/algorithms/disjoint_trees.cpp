#include "ccl/algorithms/disjoint_trees.h"

#include <algorithm>
#include <cstddef>

#include "ccl/algorithms/chain.h"
#include "ccl/core/edge_disjoint_trees.h"

namespace kernbench::ccl {

namespace {

// The root sends a relay a share, and the relay sends it to all others, which are its neighbours.
// There are as many messages as the product of relays and members.
constexpr int kMostRelays = 16;

Branch branch_through(int relay, const PlanRequest& request) {
  const int self = request.self;
  if (self == request.root) return {0, kNobody, {relay}};
  if (self != relay) return {2 * kTimesOfHop, relay, {}};
  Branch branch{kTimesOfHop, request.root, {}};
  for (int member = 0; member < request.shape.size; ++member) {
    if (member != relay && member != request.root) branch.outer.push_back(member);
  }
  return branch;
}

// `branch_of_tree` returns the member's place in a tree, whose longest branch has `depth` times.
template <class BranchOfTree>
void plan_trees(const PlanRequest& request, int count, int depth,
                const BranchOfTree& branch_of_tree, Plan& plan) {
  // A lane that has one tree alone never lets one tree wait for another.
  plan.chunk_count = plan.width = plan.channels = count;
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  plan.length = std::max(plan.length, depth + 1);
  for (int tree = 0; tree < count; ++tree) {
    const Branch branch = branch_of_tree(tree);
    request.kind == Plan::Kind::reduce ? plan.reduce({tree, tree + 1}, branch, plan.length - 1)
                                       : plan.broadcast({tree, tree + 1}, branch, 0);
  }
}

}  // namespace

void plan_disjoint_trees(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  if (shape.joins_all && shape.size > 2 && !shape.spans_nodes) {
    const auto through = [&](int tree) {
      return branch_through(tree < request.root ? tree : tree + 1, request);
    };
    return plan_trees(request, std::min(shape.size - 1, kMostRelays), 2 * kTimesOfHop, through,
                      plan);
  }
  if (shape.trees == nullptr) return plan_half_chains(request, plan);
  const EdgeDisjointTrees::Trees& trees = shape.trees->of_root(request.root);
  plan_trees(
      request, static_cast<int>(trees.inner.size()), trees.longest,
      [&](int tree) {
        return branch_of(trees.inner[static_cast<std::size_t>(tree)], request.self);
      },
      plan);
}

}  // namespace kernbench::ccl
