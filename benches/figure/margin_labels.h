// Labels in the margin to the right of a chart, each beside the end of its line.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

struct MarginLabel {
  std::string text;
  double y = 0;   // where its line ends
  Stroke leader;  // from there to the label
};

// The width of the margin that labels with these texts need.
double margin_width(std::span<const std::string> texts);

// Draws each label as near as possible to its place, without overlap.
void draw_margin_labels(SvgWriter& svg, std::vector<MarginLabel> labels, const Box& plot);

// Intervals of these heights around `centres`, moved apart by as little as possible so that none
// overlaps another; between `top` and `bottom` as long as there is room.  Returns their centres.
// REQUIRES: `centres` ascend; as many heights
std::vector<double> moved_apart(std::span<const double> centres, std::span<const double> heights,
                                double top, double bottom);

}  // namespace kernbench::benches::figure
