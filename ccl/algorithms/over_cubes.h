// The frame of a collective over tensors that lie on several cubes (ADR-0032): reduce summands to
// the centre cube, exchange among the SIPs' centre cubes by any algorithm, broadcast the results to
// all copies.
//
// Steps (w x h cubes):   2 (floor(w/2) + floor(h/2)) between cubes, or with `root: corner` in
//                        ccl.yaml 2 (w - 1 + h - 1), plus those of the exchange
// Bytes of n per cube:   n over each used UCIe link each way, plus those of the exchange
// Best for:              summands on many cubes; the links between SIPs carry each byte once
// Source:                ADR-0032; TIMING.md 3.2, "hierarchical, root form"

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Plans one cube of a member; the first node of a member is its first cube.
void plan_over_cubes(AlgorithmPlan exchange, const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
