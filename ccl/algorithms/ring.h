// Reduce-scatter and all-gather on a ring through all members, one way or both ways round.
//
// Steps:                 P - 1 each
// Bytes sent by each:    (P - 1)/P n each
// Time of an all_reduce: 2 (P - 1) alpha + 2 (P - 1)/P n beta; both ways round at once, on links of
//                        their own, 2 (P - 1) alpha + (P - 1)/P n beta
// Best for:              large tensors: every member sends and receives all the time
// Source:                Patarasuk and Yuan, JPDC 69 (2009); TIMING.md 3.2
//
// Each chunk is summed along the ring, so that it ends complete on one member, and is then copied,
// so all end with the same bits.

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Plans all_reduce, all_gather or reduce_scatter.
void plan_ring(const PlanRequest& request, Plan& plan);

// Half of the data travels in the opposite direction.  Where neighbours are not joined all round,
// on a line or an odd mesh, chunks come from both sides instead: 2 (P - 1) (alpha + n/P beta).
void plan_both_rings(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
