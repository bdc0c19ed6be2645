#include "ccl/algorithms/direct.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

// The tree in which all others are neighbours of `target`.
Branch star(const Row& members, int position, int target) {
  if (position != target) return {1, members.at(target), {}};
  Branch root;
  for (int i = 1; i < members.size(); ++i) root.outer.push_back(members.at(target + i));
  return root;
}

}  // namespace

void plan_direct(const PlanRequest& request, Plan& plan) {
  const Row& members = request.shape.ring;
  const int size = members.size();
  const int self = members.position_of(request.self);
  const bool sums = request.kind == Plan::Kind::all_reduce;
  plan.chunk_count = sums ? size : 1;
  plan.length = (sums ? 2 : 1) + 1;
  plan.width = std::max(size - 1, 1);
  for (int target = 0; target < size; ++target) {
    const int chunk = sums ? target : 0;
    const std::size_t before = plan.moves.size();
    // Sums come from the nearest behind first, since that one sends first.
    Branch up = star(members, self, target);
    std::ranges::reverse(up.outer);
    plan.along(members.at(target), {chunk, chunk + 1}, up, star(members, self, target), 1);
    for (std::size_t i = before; i < plan.moves.size(); ++i) {
      const bool receives = !plan.moves[i].has_source && self != target;
      plan.moves[i].stage = ((receives ? self - target : target - self) + size) % size;
    }
  }
}

void plan_through_switch(const PlanRequest& request, Plan& plan) {
  plan.length = 2;
  plan.slices_at_once = 4;
  plan.slice_interval = 1;
  Move& there = plan.moves.emplace_back();
  there.has_source = true;
  if (request.shape.size == 1) {
    there.is_complete = there.stores = true;
    return;
  }
  there.to = {kSwitch};
  Move& back = plan.moves.emplace_back();
  back.time = 1;
  back.from = {kSwitch};
  back.is_complete = back.stores = true;
}

}  // namespace kernbench::ccl
