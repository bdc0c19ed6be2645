// Reduce-scatter and all-gather on a grid of members, a dimension after the other.
//
// Steps (a x b):         the diameter each way: floor(a/2) + floor(b/2) where dimensions wrap
//                        around, a + b - 2 where they do not
// Bytes over a link:     a x b torus (P - 1)/(2 P) n each way for each pass, with all dimensions
//                        busy at once; a ring (P - 1)/P n/2, a line n/2
// Best for:              any size; all links carry the same load all the time
// Source:                Jain and Sabharwal, ICS 2010 (channels); TIMING.md 3.2
//
// Each chunk is summed up by one member, to which its summands come the shortest way from all
// sides.  A share of the data goes along rows first, the rest along columns first, so that all
// links are busy at once; the shares are such that rows and columns carry as much.

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Plans all_reduce, all_gather or reduce_scatter.
void plan_grid(const PlanRequest& request, Plan& plan);

// The same without wrap-around links.
void plan_mesh(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
