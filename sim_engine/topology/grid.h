#pragma once

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

// A rectangle of cubes or of SIPs, or several above each other, numbered row by row, with or
// without wrap-around links.
struct Grid {
  int w = 1;
  int h = 1;
  bool wraps = false;
  int d = 1;

  int count() const { return w * h * d; }
  int x_of(int index) const { return index % w; }
  int y_of(int index) const { return index / w % h; }
  int z_of(int index) const { return index / w / h; }
  int index_of(int x, int y, int z = 0) const { return (z * h + y) * w + x; }

  // The neighbour of `index` in a direction, or -1 at an edge without wrap-around.  In a dimension
  // of size 1 a node has no neighbour.
  int neighbour(int index, Compass direction) const;

  // The first step from one node towards another: x before y before z, the shorter way round, and
  // east, south or down if both ways are equally long.
  // REQUIRES: from != to
  Compass first_step(int from, int to) const;
};

Grid cube_grid(const Topology& topology);
// A switch and a full mesh count as a ring, since any order of SIPs is one.
Grid sip_grid(const Topology& topology);

}  // namespace kernbench::sim
