// Curves and points over two axes: latency over size, a model beside a reference, a roofline.
//
//   const LineChart chart{
//       .title = "all_reduce: latency over size",
//       .subtitle = "6 SIPs, f16, tcm buffers",
//       .x = {.title = "elements per cube", .scale = Scale::log2, .labels = Labels::binary},
//       .y = {.title = "latency (µs)"},
//       .series = {{.name = "ring_1d", .points = {{8, 5.1}, {49152, 21.9}}},
//                  {.name = "lower bound", .points = {{8, 1.2}, {49152, 13.0}},
//                   .kind = SeriesKind::bound}}};
//   write_figure("out/latency", to_svg(chart));

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benches/figure/axis.h"
#include "benches/figure/chart_frame.h"

namespace kernbench::benches::figure {

struct Point {
  double x = 0;
  double y = 0;
  std::string label = {};  // written beside it, if there is room
};

enum class SeriesKind : std::uint8_t {
  line,    // through its points, with a marker at each unless they are very many
  points,  // markers alone
  bound,   // a thin dashed grey line, its name at its right end instead of in the legend
};

// Points that cannot be shown (not finite; not positive on a logarithmic axis) interrupt the line.
// Between two points a line is straight on paper, whatever the axes, also through a cut.
struct Series {
  std::string name;
  std::vector<Point> points = {};  // in the order in which they are joined
  SeriesKind kind = SeriesKind::line;
  // The index of colour, marker and dashes; empty: the index among the series that are no bounds.
  // A thing that appears in several figures should have the same look in all of them.
  std::optional<int> look = {};
};

enum class Legend : std::uint8_t {
  above,   // between the heading and the data; none for a single series
  beside,  // each name at the right end of its line
};

struct LineChart {
  std::string title;
  std::string subtitle = {};  // what was measured: topology, dtype, placement
  Axis x = {};
  Axis y = {};
  std::vector<Series> series = {};
  std::vector<ReferenceLine> references = {};
  Legend legend = Legend::above;
  std::string note = {};  // below: where a reference comes from, what was left out
};

// The same chart gives the same bytes.  A chart without data shows a note instead.
// REQUIRES: what range_of() requires of its axes; no cut in x
std::string to_svg(const LineChart& chart);

}  // namespace kernbench::benches::figure
