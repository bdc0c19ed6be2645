#pragma once

#include <span>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

// What of a line through `points` lies within a box: its pieces, in order.  A single point is no
// line.
std::vector<std::vector<Position>> clipped(std::span<const Position> points, const Box& box);

}  // namespace kernbench::benches::figure
