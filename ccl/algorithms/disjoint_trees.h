// Broadcast, and reduce in the opposite direction, over trees that share no link: each carries a
// share of the data to all members.
//
// Steps:                 the depth of the deepest tree
// Time:                  n beta/k for large n, with k trees: on a grid as many as the member with
//                        the fewest neighbours has, which is what its links allow; min(P - 1, 16)
//                        where all are neighbours
// Best for:              large tensors on grids and in full meshes; on a ring it is half_chains
// Source:                Edmonds and Lovasz (core/edge_disjoint_trees.h)

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

void plan_disjoint_trees(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
