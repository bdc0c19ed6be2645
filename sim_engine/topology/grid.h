#pragma once

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

// A rectangle of cubes or of SIPs, numbered row by row, with or without wrap-around links.
struct Grid {
  int w = 1;
  int h = 1;
  bool wraps = false;

  int count() const { return w * h; }
  int x_of(int index) const { return index % w; }
  int y_of(int index) const { return index / w; }
  int index_of(int x, int y) const { return y * w + x; }

  // The neighbour of `index` in a direction, or -1 at an edge without wrap-around.  In a dimension
  // of size 1 a node has no neighbour.
  int neighbour(int index, Compass direction) const;

  // The first step from one node towards another: x before y, the shorter way round, and east or
  // south if both ways are equally long.
  // REQUIRES: from != to
  Compass first_step(int from, int to) const;
};

Grid cube_grid(const Topology& topology);
Grid sip_grid(const Topology& topology);

}  // namespace kernbench::sim
