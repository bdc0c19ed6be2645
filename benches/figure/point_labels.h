// Labels beside points of a chart.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

struct PointLabel {
  Position point;
  std::string text;
};

struct Segment {
  Position from;
  Position to;
};

// What labels have to keep clear of.
struct Obstacles {
  std::vector<Position> points = {};  // never covered
  std::vector<Segment> lines = {};    // covered if there is no other way
  std::vector<Segment> leaders = {};  // never covered: they lead to other labels
  Box text = {};                      // never covered
};

// Writes each label beside its point, or near it with a line that leads there.  One that has no
// place is left out: a label that cannot be read helps nobody.
void draw_point_labels(SvgWriter& svg, std::span<const PointLabel> labels,
                       const Obstacles& obstacles, const Box& plot);

}  // namespace kernbench::benches::figure
