// All_to_all, gather and scatter for groups that lie anywhere: shares of a block go straight to the
// taker or over other members, so that the busiest link carries little.
//
// Steps:                 1 for a share that goes straight, 1 more for each member on its way
// Bytes over a link:     close to the least that any algorithm can do (ADR-0267)
// Best for:              large tensors in groups that are no ring or torus

#pragma once

#include <string_view>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// An all_to_all of a larger group than Ways::kMostMembers is that of `pairs`.
void plan_packed_ways(const PlanRequest& request, Plan& plan);

std::string_view misfit_of_packed_ways(const GroupShape& shape);

}  // namespace kernbench::ccl
