#include "ccl/algorithms/disjoint_trees.h"

#include <algorithm>

#include "ccl/algorithms/chain.h"
#include "ccl/core/edge_disjoint_trees.h"

namespace kernbench::ccl {

void plan_disjoint_trees(const PlanRequest& request, Plan& plan) {
  if (request.shape.trees == nullptr) return plan_half_chains(request, plan);
  const EdgeDisjointTrees::Trees& trees = request.shape.trees->of_root(request.root);
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
