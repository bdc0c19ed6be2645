// All_to_all, gather, scatter and messages: every block goes from its giver to its taker.
//
// In turn:     one block of a member after the other, in large messages
// At once:     straight, and no block waits for another one: the fewest latencies
// Spread:      at once, and on rings and tori by several ways, so that all links carry as much
//
// Steps:                 1; on rings and tori up to 4 for a part of a block, in turn or spread
// Bytes over a link:     all_to_all on a ring: the hops of all blocks over all links, P/8 n
// Source:                TIMING.md 3.2, "all-to-all pairwise"

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

void plan_pairs(const PlanRequest& request, Plan& plan);
void plan_pairs_at_once(const PlanRequest& request, Plan& plan);
void plan_pairs_spread(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
