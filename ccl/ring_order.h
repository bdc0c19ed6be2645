// A ring through all nodes of a grid.

#pragma once

#include <vector>

#include "sim_engine/components/grid.h"

namespace kernbench::ccl {

// The nodes in an order in which neighbours in the ring are neighbours in the grid: a Hamiltonian
// cycle where there is one (TIMING.md 3.2: without wrap-around iff w * h is even and w, h >= 2;
// with it always).  Else, on a line or an odd mesh, a path, whose last node is not the first one's
// neighbour.
std::vector<int> ring_order(const sim::Grid& grid);

}  // namespace kernbench::ccl
