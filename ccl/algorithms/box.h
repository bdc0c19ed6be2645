// All_reduce, all_gather and reduce_scatter for members that lie along several dimensions: each
// block has a tree, which leads along one dimension after the other.  Shares of the data pass the
// dimensions in different orders at once, so that links along all of them are busy.
//
// Steps:                 the sum over the dimensions of 1, where all are neighbours, or else half a
//                        ring; twice for all_reduce
// Bytes over a link:     a torus of equal sides, all_gather: (P - 1)/(2 D) blocks along each of D
//                        dimensions, which is the least
// Best for:              large tensors on tori of three dimensions, and between nodes

#pragma once

#include <vector>

#include "ccl/core/plan.h"

namespace kernbench::ccl {

// An order in which dimensions of a box are passed, and who is reached ahead on rings.
struct Passage {
  std::vector<int> order;
  bool ties_ahead = true;
};

// Returns the orders in which equal shares of the data pass: those that load links most evenly, and
// in nodes one for each dimension of the grid.  Halves of a share go either way to the opposite
// side of a ring.
std::vector<Passage> list_passages(const MemberBox& box);

// REQUIRES: the shape's box is filled
void plan_box(const PlanRequest& request, Plan& plan);

}  // namespace kernbench::ccl
