#include "ccl/algorithms/ring.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

void plan_rings(const PlanRequest& request, Plan& plan, int ways) {
  const Row& ring = request.shape.ring;
  const int size = ring.size();
  const int self = ring.position_of(request.self);
  const bool sums = request.kind == Plan::Kind::all_reduce;
  const int last = size - 1;
  plan.units = ways * (sums ? size : 1);
  plan.length = last * (sums ? 2 : 1) + 1;
  plan.width = ways;
  plan.window = 4;
  plan.interval = std::max(plan.length - 1, 1);
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

}  // namespace

void plan_ring(const PlanRequest& request, Plan& plan) {
  plan_rings(request, plan, 1);
}

void plan_both_rings(const PlanRequest& request, Plan& plan) {
  plan_rings(request, plan, request.shape.size > 1 ? 2 : 1);
}

}  // namespace kernbench::ccl
