// All-reduce over SIPs whose tensors lie on several cubes (ADR-0032): reduce to the centre cube,
// exchange among the SIPs' centre cubes, broadcast back.
//
// Steps (w x h cubes):   2 (floor(w/2) + floor(h/2)) between cubes, or with `root: corner` in
//                        ccl.yaml 2 (w - 1 + h - 1), plus those of the exchange along the SIPs'
//                        grid (grid.h)
// Bytes of n per cube:   n over each used UCIe link each way, plus those of the exchange
// Best for:              summands on many cubes, with links between cubes that are slow
// Source:                ADR-0032; TIMING.md 3.2, "hierarchical, root form"
//
// Where no cube has a summand or copy of another's elements, it is the exchange alone.

#pragma once

#include "ccl/plan.h"

namespace kernbench::ccl {

// Plans all_reduce, for one cube of a member.
void plan_intercube(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
