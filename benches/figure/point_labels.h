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

// Obstacles that labels must avoid.
struct Obstacles {
  std::vector<Position> points = {};  // never covered
  std::vector<Segment> lines = {};    // covered only if unavoidable
  std::vector<Segment> leaders = {};  // never covered: they lead to other labels
  Box text = {};                      // never covered
};

// Writes each label beside its point, or near it with a leader line.  A label without room is left
// out, since it could not be read.
void draw_point_labels(SvgWriter& svg, std::span<const PointLabel> labels,
                       const Obstacles& obstacles, const Box& plot);

}  // namespace kernbench::benches::figure
