// All_to_all, gather, scatter and messages: every block goes straight from its giver to its taker.
//
// Steps:                 1, or 2 for half of the blocks to the opposite side of a ring, which
//                        travel either way
// Bytes over a link:     all_to_all on a ring: the hops of all blocks over all links, P/8 n
// Source:                TIMING.md 3.2, "all-to-all pairwise"

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

void plan_pairs(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
