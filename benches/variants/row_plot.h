// Draws rows of any bench: a column over another one, with a curve for each text of a third one.

#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches/bench/row.h"
#include "benches/figure/chart.h"

namespace kernbench::benches::variants {

struct PlotRequest {
  std::string x;
  std::string y;
  std::string by = {};   // empty: one curve
  std::string low = {};  // of a band around the curve, `high` likewise; empty: there is none
  std::string high = {};
};

// "x=COLUMN,y=COLUMN,by=COLUMN"; `by` may be left out.  Throws UsageError KB-U018.
PlotRequest parse_plot(const std::string& text);

struct RowPlot {
  std::vector<Row> points;  // the chart's CSV: x, y, series; of bands also low, high
  figure::Chart chart;
};

// Throws UsageError KB-U018 unless each column that the plot names is one of the rows'.
void check_columns(std::span<const Row> rows, const PlotRequest& request);

// A column may be named without its unit: "time" is "time_ns".  Where not all x are numbers of one
// unit they stand beside each other, in the order of the rows.  Throws UsageError KB-U018 for a
// column that no row has.
RowPlot make_plot(std::span<const Row> rows, const PlotRequest& request, std::string title,
                  std::string csv);

}  // namespace kernbench::benches::variants
