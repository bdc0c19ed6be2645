// Finds a ring through all nodes of a grid.

#pragma once

#include <vector>

#include "sim_engine/topology/location.h"

namespace kernbench::ccl {

// Returns the nodes in an order in which neighbours in the ring are neighbours in the grid: a
// Hamiltonian cycle if there is one (TIMING.md 3.2: without wrap-around iff w * h is even and w, h
// >= 2; with it always).  Otherwise, on a line or an odd mesh, it is a path whose last node is not
// a neighbour of the first.
std::vector<int> ring_order(const sim::Grid& grid);

// A grid of three dimensions as one of two: its columns follow the ring through y and z.
struct FlatGrid {
  sim::Grid grid;
  std::vector<int> lines;  // by y of the flat grid: z * h + y

  int node(const sim::Grid& whole, int x, int y) const;
};
FlatGrid flattened(const sim::Grid& grid);

bool are_neighbours(const sim::Grid& grid, int a, int b);

}  // namespace kernbench::ccl
