// Within nodes first, then between them, level by level: sums of a node, of which each member makes
// a share, pass the links between nodes once (NCCL's and MPI's hierarchical collectives).

#pragma once

#include "ccl/core/algorithm.h"
#include "ccl/core/plan.h"

namespace kernbench::ccl {

// A member passes on what goes to, or comes from, its column in all_reduce, all_gather and
// reduce_scatter: the members with its place in other nodes.  In broadcast, reduce, gather and
// scatter the links of all members of the root's node carry a share.
void plan_hierarchical(const PlanRequest& request, Plan& plan);
// broadcast and reduce of little: the root's links carry all, and no message waits for a share.
void plan_hierarchical_whole(const PlanRequest& request, Plan& plan);
// Needs several nodes with the same places taken in each.
std::string_view misfit_of_hierarchical(const GroupShape& shape);

}  // namespace kernbench::ccl
