#include "ccl/algorithms/direct.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

// Returns the other members by their places as one of them counts them.
std::vector<int> list_others(const GroupShape& shape, int from) {
  std::vector<int> others;
  for (int member = 0; member < shape.size; ++member) {
    if (member != from) others.push_back(member);
  }
  std::ranges::sort(others, {}, [&](int member) { return shape.place_of(from, member); });
  return others;
}

// The tree in which all others are neighbours of `target`; it lists them for the target alone.
Branch star(int self, int target, const std::vector<int>& others) {
  return self == target ? Branch{0, kNobody, others} : Branch{1, target, {}};
}

}  // namespace

void plan_direct(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const int self = request.self;
  const bool sums = request.kind == Plan::Kind::all_reduce;
  plan.chunk_count = sums ? shape.size : 1;
  plan.length = (sums ? 2 : 1) + 1;
  plan.width = std::max(shape.size - 1, 1);
  const std::vector<int> ahead = list_others(shape, self);
  // Sums come from the nearest behind first, since that one sends first.
  std::vector<int> behind = ahead;
  std::ranges::sort(behind, {}, [&](int member) { return shape.place_of(member, self); });
  for (int target = 0; target < shape.size; ++target) {
    const int chunk = sums ? target : 0;
    const std::size_t before = plan.moves.size();
    plan.along(target, {chunk, chunk + 1}, star(self, target, behind), star(self, target, ahead),
               1);
    for (std::size_t i = before; i < plan.moves.size(); ++i) {
      const bool receives = !plan.moves[i].has_source && self != target;
      plan.moves[i].stage = receives ? shape.place_of(target, self) : shape.place_of(self, target);
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
