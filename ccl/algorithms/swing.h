// All_reduce by pairs ever farther apart, one step each: positions 1, -1, 3, -5, 11, ... away,
// which on a ring is closer than the 1, 2, 4, 8, 16 of recursive doubling.
//
// Steps:                 log2 P, of which the first k come back: k + log2 P; k >= log2 P - 2 along
//                        each dimension, since more exchanges of the whole would give ranks
//                        different bits
// Bytes sent by each:    the first k steps halve what a member has to do with, and come back at the
//                        end: 2 (1 - 2^-k) n; the others exchange it whole: 2^-k n each
// Best for:              groups of many members, up to some KiB for each of them
// Source:                De Sensi et al., "Swing: Short-cutting Rings for Higher Bandwidth
//                        Allreduce", NSDI 2024; halving and doubling: Rabenseifner, ICCS 2004
//
// A grid has its steps along rows and columns in turn.  Channels travel at once: one
// begins along rows, another along columns, and two more do the same in the opposite directions, so
// that all links are busy.

#pragma once

#include <string_view>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// All steps exchange everything: the fewest steps, for sides of at most 4.
void plan_swing_whole(const PlanRequest& request, Plan& plan);

// Steps between neighbours halve the data, and all but the last two along a dimension.
void plan_swing(const PlanRequest& request, Plan& plan);

// All steps exchange everything with members 1, 2, 4, ... away, along rows first: the summands are
// added in pairs, pairs of pairs and so on, by the order of the members and in all chunks alike.
//
// Steps:                 log2 P
// Bytes sent by each:    log2 P n
// Source:                recursive doubling: Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005)
void plan_doubling(const PlanRequest& request, Plan& plan);

// Says why a group's members have no such pairs; empty if they have.
std::string_view misfit_of_swing(const GroupShape& shape);
std::string_view misfit_of_swing_whole(const GroupShape& shape);

}  // namespace kernbench::ccl
