#include "ccl/algorithms/tree.h"

#include <algorithm>
#include <ranges>

namespace kernbench::ccl {

void plan_tree(const PlanRequest& request, Plan& plan) {
  const std::vector<Branch>& tree = request.shape.tree;
  // Between SIPs slices follow each other one by one, up and down the same links; where cubes share
  // them, each cube would wait for each slice.
  const bool is_piped = !request.shape.is_of_pes && request.cubes.count == 1;
  const int hop = is_piped ? kTimesOfHop : 1;
  const int depth = hop * std::ranges::max_element(tree, {}, &Branch::distance)->distance;
  plan.length = 2 * depth + 1;
  plan.width = 2;
  plan.slices_at_once = is_piped ? 1 : 4;
  plan.slice_interval = 1;
  Branch up = tree[static_cast<std::size_t>(request.self)];
  up.distance *= hop;
  // The child with the deepest subtree, whose value was added last, is served first.
  Branch down = up;
  std::ranges::reverse(down.outer);
  plan.all_reduce({}, up, down, depth);
}

}  // namespace kernbench::ccl
