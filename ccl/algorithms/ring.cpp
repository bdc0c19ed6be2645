#include "ccl/algorithms/ring.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

void set_form(Plan& plan, int chunks, int length, int ways) {
  plan.chunk_count = ways * chunks;
  plan.length = length;
  plan.width = ways;
  plan.slices_at_once = 4;
  plan.slice_interval = std::max(plan.length - 1, 1);
}

void plan_rings(const PlanRequest& request, Plan& plan, int ways) {
  const Row& ring = request.shape.ring;
  const int size = ring.size();
  const int self = ring.position_of(request.self);
  const bool sums = request.kind == Plan::Kind::all_reduce;
  const int last = size - 1;
  set_form(plan, sums ? size : 1, last * (sums ? 2 : 1) + 1, ways);
  for (int way = 0; way < ways; ++way) {
    // Sums come from behind, and results go ahead; the other way round from ahead, and back.
    const int behind = way == 0 ? 0 : last;
    const int ahead = last - behind;
    for (int target = 0; target < size; ++target) {
      const int chunk = sums ? way * size + target : way;
      plan.along(ring.at(target), {chunk, chunk + 1}, ring.branch(self, target, behind),
                 ring.branch(self, target, ahead), last);
    }
  }
}

// An open row is served from both ends: the way back from its last member to its first would cross
// all other messages.
void plan_line(const PlanRequest& request, Plan& plan) {
  const Row line = request.shape.ring.as_line();
  const int self = line.position_of(request.self);
  const bool sums = request.kind == Plan::Kind::all_reduce;
  set_form(plan, sums ? line.size() : 1, line.depth() * (sums ? 2 : 1) + 1, 1);
  for (int target = 0; target < line.size(); ++target) {
    const int chunk = sums ? target : 0;
    const Branch branch = line.branch(self, target, line.nearest_ahead(target));
    plan.along(line.at(target), {chunk, chunk + 1}, branch, branch, line.depth());
  }
}

}  // namespace

void plan_ring(const PlanRequest& request, Plan& plan) {
  plan_rings(request, plan, 1);
}

void plan_both_rings(const PlanRequest& request, Plan& plan) {
  if (!request.shape.closes && request.shape.size > 2) return plan_line(request, plan);
  plan_rings(request, plan, request.shape.size > 1 ? 2 : 1);
}

}  // namespace kernbench::ccl
