#include "ccl/algorithms/direct.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ccl/algorithms/chain.h"

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

// Adds a move whose messages and own value are added up in the order of the members: the own value,
// which a move adds last, ends the first sum, and each later message makes a sum of its own.
void add_in_order(const Move& move, int self, Plan& plan) {
  if (!move.has_source || move.from.empty()) {
    plan.moves.push_back(move);
    return;
  }
  std::vector<int> from = move.from;
  std::ranges::sort(from);
  const auto behind = std::ranges::lower_bound(from, self);
  Move sum;
  sum.time = move.time;
  sum.stage = move.stage;
  sum.chunks = move.chunks;
  sum.from.assign(from.begin(), behind);
  sum.has_source = true;
  for (auto next = behind; next != from.end(); ++next) {
    plan.moves.push_back(sum);
    sum.from = {*next};
    sum.has_source = false;
    sum.held = {static_cast<int>(plan.moves.size()) - 1};
    sum.stage = move.stage + 1;
  }
  sum.is_complete = move.is_complete;
  sum.to = move.to;
  sum.stores = move.stores;
  plan.moves.push_back(sum);
}

// The plan is a chain where members hand messages on, since messages to all of them would meet on
// the root's links.
void plan_rooted(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  if (!shape.joins_all) return plan_chain(request, plan);
  const bool is_root = request.self == request.root;
  const Branch branch = star(request.self, request.root,
                             is_root ? list_others(shape, request.root) : std::vector<int>());
  plan.length = 2;
  plan.slice_interval = 1;
  request.kind == Plan::Kind::reduce ? plan.reduce({}, branch, 1) : plan.broadcast({}, branch, 0);
}

}  // namespace

void plan_direct(const PlanRequest& request, Plan& plan) {
  using enum Plan::Kind;
  if (request.kind == broadcast || request.kind == reduce) return plan_rooted(request, plan);
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

void plan_direct_in_order(const PlanRequest& request, Plan& plan) {
  Plan unordered(plan.kind(), plan.member());
  plan_direct(request, unordered);
  const std::vector<Move> moves = std::exchange(unordered.moves, {});
  plan = std::move(unordered);
  for (const Move& move : moves) add_in_order(move, request.self, plan);
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
