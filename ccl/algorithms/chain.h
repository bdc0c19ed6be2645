// Broadcast, and reduce in the opposite direction, along chains from the root both ways round the
// ring of members.
//
// Steps:                 floor(P/2), the whole of the data each way; in halves P - 1
// Time:                  (h + k - 1) (alpha + m) over h hops, for k slices of m = n/k beta; in
//                        halves half the bytes: n beta/2 for large n, which two ports allow
// Source:                TIMING.md 3.2, "broadcast pipelined chain"

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Each member is reached the shorter way, with all of the data.
void plan_chain(const PlanRequest& request, Plan& plan);

// Each half of the data goes all the way round in one direction.
void plan_half_chains(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
