// The frame of a chart around its data: heading, legend, axes, grid, labels in the margin, a note,
// and the break of an axis.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benches/figure/axis.h"
#include "benches/figure/cut_mark.h"
#include "benches/figure/margin_labels.h"
#include "benches/figure/style.h"

namespace kernbench::benches::figure {

// A horizontal line across a chart with its name beside it: a limit, or a figure from elsewhere.
struct ReferenceLine {
  std::string name;
  double y = 0;
};

struct LegendEntry {
  enum class Sample : std::uint8_t { line, marker, bar };
  std::string name;
  Look look;
  Sample sample = Sample::line;
};

struct FrameContent {
  std::string title = {};
  std::string subtitle = {};
  std::string note = {};
  std::string x_title = {};
  std::string y_title = {};
  std::vector<LegendEntry> legend = {};
  std::vector<std::string> margin_texts = {};  // of all labels that will stand in the margin
  double value_label_height = 18;              // above the highest value
  double x_labels_height = 0;                  // below the x axis
};

class ChartFrame {
 public:
  ChartFrame(const FrameContent& content, const AxisRange& y);

  // The area for the data.
  const Box& plot() const { return plot_; }
  const AxisMap& y() const { return y_; }
  double page_height() const { return page_height_; }

  // Draws heading, legend, titles and note, and the y axis with its grid.
  void draw(SvgWriter& svg) const;

  // Writes a note in place of the data.
  void say_no_data(SvgWriter& svg) const;

  // The gap between the two parts of a broken y axis.  REQUIRES: it has a cut
  Box gap_of_cut() const;
  // Erases the grid in that gap.  Call it before the data are drawn.
  void clear_gap(SvgWriter& svg) const;

  // Over the data: the breaks of the y axis, and of what crosses the gap within `crossings`, and
  // what is left out, beside what else is `taken`.  Returns that label's place, empty if it has
  // none.
  Box draw_cut(SvgWriter& svg, std::vector<Stretch> crossings,
               std::vector<Stretch> taken = {}) const;

  // Draws the line across the chart, and adds its label to `labels` if it belongs into the margin.
  void draw_reference(SvgWriter& svg, const ReferenceLine& reference,
                      std::vector<MarginLabel>& labels) const;

 private:
  struct PlacedText {
    Position at;
    std::string text;
    TextStyle style;
  };
  struct PlacedEntry {
    Position at;  // the left end of its sample
    LegendEntry entry;
  };

  // Each places what begins at `top`, and returns where it ends.
  double place_lines(const std::string& text, double top, const TextStyle& style, double x);
  double place_legend(const std::vector<LegendEntry>& entries, double top);
  void draw_y_axis(SvgWriter& svg) const;

  std::vector<PlacedText> texts_;
  std::vector<PlacedEntry> legend_;
  Box plot_;
  AxisMap y_;
  double page_height_ = 0;
};

// Which of the labels, `widths` wide and centred at ascending `centres`, can be written with `gap`
// between them: the first, the last, and then from left to right.  A width of 0 is no label.
std::vector<bool> labels_that_fit(const std::vector<double>& centres,
                                  const std::vector<double>& widths, double gap);

}  // namespace kernbench::benches::figure
