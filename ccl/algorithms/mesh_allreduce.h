// All-reduce on a grid without wrap-around links, one dimension after the other: on a line every
// partial sum flows from both ends to the position that sums it up, and back to both.
//
// Steps (a x b):         2 (a - 1) + 2 (b - 1)
// Bytes over a link:     2 (P - 1)/P n, both ways together, for a line of P
// Time:                  2 (a + b - 2) alpha + 2 (P - 1)/P n beta
// Best for:              meshes; where links wrap around, it leaves them alone
// Source:                TIMING.md 3.2, "2-D mesh no wrap, dimension-sequential, line RS/AG"

#pragma once

#include "ccl/algorithm.h"

namespace kernbench::ccl {

void mesh_allreduce(tl::Context& tl, const KernelArgs& args);

// Returns nullopt if messages share links, chunks differ in size, there are several segments, or
// credits run out.
std::optional<Time> mesh_closed_form(const CollectiveCase& collective);

inline constexpr Algorithm kMeshAllReduce{
    .name = "mesh_allreduce",
    .kernel = mesh_allreduce,
    .summary = "reduce-scatter and all-gather along lines, x then y",
    .neighbours = Neighbours::grid,
    .reduces_in_sip = true,
    .suits_auto = true,
    .closed_form = mesh_closed_form,
    .form = "2 (w + h - 2) a + 2 (P - 1)/P n b"};

}  // namespace kernbench::ccl
