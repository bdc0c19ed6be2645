// Reduce, reduce_scatter and all_reduce along binomial trees, one to each taker, which adds what
// members 1, 2, 4, ... away from it have added up, in this order.  Of an all_reduce each member
// takes a chunk, and sends its sum straight to all others.
//
// Members 2i and 2i + 1 are added first, then pairs of these, and so on, whoever takes the sum: so
// the sum over P members has the bits of that over P/2 which have each added up two.
//
// Steps:                 log2 P; 1 + log2 P of an all_reduce
// Bytes sent by each:    (P - 1)/P n of a reduce_scatter, twice that of an all_reduce
// Source:                Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), "binomial"

#pragma once

#include <string_view>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

void plan_binomial(const PlanRequest& request, Plan& plan);

// Says why a group's members have no such trees; empty if they have.
std::string_view misfit_of_binomial(const GroupShape& shape);

}  // namespace kernbench::ccl
