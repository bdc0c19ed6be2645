// Every collective that goes along trees, for groups that lie anywhere: equal shares of the data
// travel along trees that are chosen one by one, each the cheapest where links cost the more, the
// more they carry.
//
// Steps:                 the depth of the deepest tree, twice for all_reduce
// Bytes over a link:     close to the least that any algorithm can do (ADR-0267)
// Best for:              large tensors in groups that are no ring, line or rectangle of neighbours
// Source:                Edmonds, "Optimum branchings" (1967), under prices as in Garg and
//                        Koenemann, FOCS 1998

#pragma once

#include <string_view>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

void plan_packed_trees(const PlanRequest& request, Plan& plan);

std::string_view misfit_of_packed(const GroupShape& shape);

}  // namespace kernbench::ccl
