// All-reduce up a tree to its root; then the sum travels down again.
//
// Over SIPs the tree follows the grid to its centre: 2 (floor(w/2) + floor(h/2)) steps.  With rank
// = PE it is the binomial tree: 2 ceil(log2 P) steps.
//
// Bytes sent by each:    n up; n to each child down
// Time:                  2 h (alpha + m) + (k - 1) m, for k slices of m = n/k beta that follow
//                        each other; binomial 2 log2(P) (alpha + n beta)
// Best for:              small tensors: the fewest steps
// Source:                TIMING.md 3.2: "chain pipelined", "mesh, centre-root tree", "binomial
// tree"
//
// Every member ends with a copy of the root's sum, so all have the same bits.

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Plans all_reduce.
void plan_tree(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
