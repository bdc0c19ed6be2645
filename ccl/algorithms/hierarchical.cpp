#include "ccl/algorithms/hierarchical.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

constexpr int kDepth = 2;  // of a tree: to the node's member in the target's column, to the target

void add_others(const Row& row, int self, std::vector<int>& members) {
  const int own = row.position_of(self);
  for (int i = 1; i < row.size(); ++i) members.push_back(row.at(own + i));
}

// A member's place in the tree of a target.
Branch branch_towards(const GroupShape& shape, int self, int target) {
  const Row& node = shape.rows[static_cast<std::size_t>(shape.row_of(self))];
  const Row& column = shape.columns[static_cast<std::size_t>(shape.column_of(target))];
  const bool is_of_column = column.position_of(self) < column.size();
  if (!is_of_column) {
    const bool is_beside_target = node.position_of(target) < node.size();
    return {is_beside_target ? 1 : kDepth, column.at(shape.row_of(self)), {}};
  }
  Branch branch;
  if (self != target) branch = {1, target, {}};
  // Messages between nodes take longest, so they go first.
  if (self == target) add_others(column, self, branch.outer);
  add_others(node, self, branch.outer);
  return branch;
}

}  // namespace

void plan_hierarchical(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  plan.chunk_count = sums ? shape.size : 1;
  plan.length = (sums ? 2 : 1) * kDepth + 1;
  plan.width = shape.size;
  plan.slices_at_once = 4;  // so that links within nodes and between them are busy together
  plan.slice_interval = 1;
  for (int target = 0; target < shape.size; ++target) {
    const int chunk = sums ? target : 0;
    const std::size_t before = plan.moves.size();
    const Branch branch = branch_towards(shape, request.self, target);
    Branch up = branch;
    std::ranges::reverse(up.outer);  // sums come from the nearest behind first, as it sends first
    plan.along(target, {chunk, chunk + 1}, up, branch, kDepth);
    for (std::size_t i = before; i < plan.moves.size(); ++i) {
      plan.moves[i].stage = (target - request.self + shape.size) % shape.size;
    }
  }
}

std::string_view misfit_of_hierarchical(const GroupShape& shape) {
  return shape.spans_nodes ? "" : "it needs SIPs of several nodes, the same places in each";
}

}  // namespace kernbench::ccl
