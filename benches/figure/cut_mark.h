// The break of an axis: two zig-zag lines, and white between them, over all that goes through it.

#pragma once

#include <string>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

// From left to right.
struct Stretch {
  double from = 0;
  double to = 0;
};

// Marks each of `crossings`, that overlap or not, and writes `label` where the gap is free of them
// and of what else is `taken`, if it is anywhere.  Returns the label's place, empty if it has none.
Box draw_cut_marks(SvgWriter& svg, const Box& gap, std::vector<Stretch> crossings,
                   std::vector<Stretch> taken, const std::string& label);

}  // namespace kernbench::benches::figure
