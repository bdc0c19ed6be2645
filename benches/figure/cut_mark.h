// The break of an axis: two zig-zag lines with white between them, over everything that crosses the
// gap.

#pragma once

#include <string>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

// A horizontal interval.
struct Stretch {
  double from = 0;
  double to = 0;
};

// Marks each of `crossings`, which may overlap, and writes `label` where the gap is free of them
// and of `taken`.  Returns the label's box, which is empty if there was no room.
Box draw_cut_marks(SvgWriter& svg, const Box& gap, std::vector<Stretch> crossings,
                   std::vector<Stretch> taken, const std::string& label);

}  // namespace kernbench::benches::figure
