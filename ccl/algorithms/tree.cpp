#include "ccl/algorithms/tree.h"

#include <algorithm>
#include <ranges>

namespace kernbench::ccl {

void plan_tree(const PlanRequest& request, Plan& plan) {
  const std::vector<Branch>& tree = request.shape.tree;
  const int depth = std::ranges::max_element(tree, {}, &Branch::distance)->distance;
  plan.length = 2 * depth + 1;
  plan.width = 2;
  plan.window = 4;
  plan.interval = 1;
  const Branch& up = tree[static_cast<std::size_t>(request.self)];
  // The child with the deepest subtree, whose value was added last, is served first.
  Branch down = up;
  std::ranges::reverse(down.outer);
  plan.all_reduce({}, up, down, depth);
}

}  // namespace kernbench::ccl
