#include "ccl/algorithms/disjoint_trees.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ccl/algorithms/chain.h"
#include "ccl/core/edge_disjoint_trees.h"

namespace kernbench::ccl {

namespace {

// Where all are neighbours, each member but the root has a tree: the root sends it a share, and it
// sends that to all others.
EdgeDisjointTrees::Trees trees_through_each(int size, int root) {
  EdgeDisjointTrees::Trees trees{.inner = {}, .longest = 2 * kTimesOfHop};
  for (int member = 0; member < size; ++member) {
    if (member == root) continue;
    std::vector<int>& inner = trees.inner.emplace_back(size, member);
    inner[static_cast<std::size_t>(member)] = root;
    inner[static_cast<std::size_t>(root)] = kNobody;
  }
  return trees;
}

}  // namespace

void plan_disjoint_trees(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const bool is_joined = shape.joins_all && shape.size > 2 && !shape.spans_nodes;
  if (!is_joined && shape.trees == nullptr) return plan_half_chains(request, plan);
  const EdgeDisjointTrees::Trees trees = is_joined ? trees_through_each(shape.size, request.root)
                                                   : shape.trees->of_root(request.root);
  const int count = static_cast<int>(trees.inner.size());
  // A lane that has one tree alone never lets one tree wait for another.
  plan.chunk_count = plan.width = plan.channels = count;
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  plan.length = std::max(plan.length, trees.longest + 1);
  for (int tree = 0; tree < count; ++tree) {
    const Branch branch = branch_of(trees.inner[static_cast<std::size_t>(tree)], request.self);
    request.kind == Plan::Kind::reduce ? plan.reduce({tree, tree + 1}, branch, plan.length - 1)
                                       : plan.broadcast({tree, tree + 1}, branch, 0);
  }
}

}  // namespace kernbench::ccl
