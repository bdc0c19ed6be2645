// Reduce-scatter and all-gather straight to each member and from it; broadcast and reduce straight
// between the root and each other member, n bytes to each, where any two members are neighbours.
//
// Steps:                 1 each
// Bytes sent by each:    (P - 1)/P n each, to P - 1 members
// Time of an all_reduce: in a full mesh 2 (alpha + n/P beta); through a switch
//                        2 alpha + 2 (P - 1)/P n beta; alpha before, for the news of the receives
// Time of a broadcast:   alpha + n beta in a full mesh; through a switch alpha + (P - 1) n beta, on
//                        the root's port
// Best for:              any size where any two members are neighbours; of a broadcast small ones
// Source:                Thakur, Rabenseifner and Gropp, IJHPCA 19 (2005), "direct"
//
// At any moment each member sends to the next but as many, so that no two messages meet.

#pragma once

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// Plans all_reduce, all_gather, reduce_scatter, broadcast or reduce.
void plan_direct(const PlanRequest& request, Plan& plan);

// The same for all_reduce and reduce_scatter, but each sum takes its summands in the order of the
// members, whichever of them owns the chunk: the bits of an element depend neither on its chunk nor
// on the number of elements.  The first message that a sum waits for may arrive last.
void plan_direct_in_order(const PlanRequest& request, Plan& plan);

// All_reduce through the switch between the SIPs: each member sends all of its values, and receives
// the sums, which the switch makes.
//
// Steps:                 1 there and 1 back
// Bytes sent by each:    n
// Time:                  alpha there and back + (k + 1) m, for k slices of m = n/k beta; a sum is
//                        sent when all of its summands are there
// Source:                Graham et al., SHARP, COMHPC 2016; NCCL's NVLS
void plan_through_switch(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
