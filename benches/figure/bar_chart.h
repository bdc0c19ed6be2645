// Bars from zero, grouped with the value above each, or stacked with the value in each.
//
//   const BarChart chart{
//       .title = "Where the IPCQ buffers lie",
//       .subtitle = "torus_2d 3 x 2, 6 SIPs, f16",
//       .x_title = "elements per cube",
//       .y = {.title = "latency (µs)"},
//       .groups = {"1 Ki", "48 Ki"},
//       .series = {{.name = "tcm", .values = {6.1, 17.2}}, {.name = "hbm", .values =
//       {7.9, 24.6}}}};

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benches/figure/axis.h"
#include "benches/figure/chart_frame.h"

namespace kernbench::benches::figure {

struct BarSeries {
  std::string name;
  std::vector<double> values = {};  // one per group; not finite: "n/a" instead of a bar
  // The index of the colour; empty: the series' own index.
  std::optional<int> look = {};
};

enum class Bars : std::uint8_t {
  grouped,  // beside each other
  stacked,  // on top of each other, the first series below
};

struct BarChart {
  std::string title;
  std::string subtitle = {};  // what was measured: topology, dtype, placement
  std::string x_title = {};
  Axis y = {};
  std::vector<std::string> groups = {};
  std::vector<BarSeries> series = {};
  Bars bars = Bars::grouped;
  int reference_groups = 0;  // the last groups, of this number, are figures from elsewhere, in grey
  std::vector<ReferenceLine> references = {};
  std::string note = {};  // below: where a reference comes from, what was left out
};

// The same chart gives the same bytes.  A chart without data shows a note instead.  Values are
// written if there is room for all of them, upright or turned; of stacked ones, those that have
// room. REQUIRES: a linear y axis from 0, for stacked bars without a cut; one value per group in
// each series, none below 0
std::string to_svg(const BarChart& chart);

}  // namespace kernbench::benches::figure
