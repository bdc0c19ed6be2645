#pragma once

#include <span>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

// The pieces of a line through `points` that lie within a box, in order.  A single point is no
// line.
std::vector<std::vector<Position>> clipped(std::span<const Position> points, const Box& box);

}  // namespace kernbench::benches::figure
