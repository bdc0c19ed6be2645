#include "benches/figure/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "benches/figure/clip.h"
#include "benches/figure/number_text.h"
#include "benches/figure/point_labels.h"
#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kAxisInset = 16;  // of the x axis' limits, so that no marker lies on the y axis
constexpr double kXTickLength = 6;
constexpr std::size_t kMostMarkers = 48;

// A series with its look, and its points in pixels.
struct Curve {
  const Series* series = nullptr;
  Look look;
  std::vector<std::vector<Position>> runs = {};    // without interruption
  std::vector<std::vector<Position>> pieces = {};  // of its line, within the plot
};

std::vector<Curve> curves_of(const LineChart& chart) {
  std::vector<Curve> curves;
  int next = 0;
  for (const Series& series : chart.series) {
    Look look{kBoundColour};
    if (series.kind != SeriesKind::bound) look = look_of(series.look.value_or(next++));
    curves.push_back({&series, look});
  }
  return curves;
}

bool is_shown(const LineChart& chart, const Point& point) {
  return can_show(chart.x.scale, point.x) && can_show(chart.y.scale, point.y);
}

AxisRange x_range_of(const LineChart& chart) {
  std::vector<double> values;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (is_shown(chart, point)) values.push_back(point.x);
    }
  }
  return range_of(chart.x, values, Fit::data);
}

AxisRange y_range_of(const LineChart& chart) {
  std::vector<double> values;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      if (is_shown(chart, point)) values.push_back(point.y);
    }
  }
  for (const ReferenceLine& reference : chart.references) values.push_back(reference.y);
  return range_of(chart.y, values, Fit::ticks);
}

bool is_named_beside(const LineChart& chart, const Series& series) {
  if (series.points.empty()) return false;
  return series.kind == SeriesKind::bound ||
         (chart.legend == Legend::beside && series.kind == SeriesKind::line);
}

FrameContent content_of(const LineChart& chart, const std::vector<Curve>& curves) {
  FrameContent content{.title = chart.title,
                       .subtitle = chart.subtitle,
                       .note = chart.note,
                       .x_title = chart.x.title,
                       .y_title = chart.y.title,
                       .x_labels_height = kTextLine};
  for (const Curve& curve : curves) {
    const Series& series = *curve.series;
    if (is_named_beside(chart, series)) {
      content.margin_texts.push_back(series.name);
    } else if (series.kind != SeriesKind::bound) {
      content.legend.push_back({series.name, curve.look,
                                series.kind == SeriesKind::line ? LegendEntry::Sample::line
                                                                : LegendEntry::Sample::marker});
    }
  }
  if (content.legend.size() == 1 && content.margin_texts.empty()) content.legend.clear();
  for (const ReferenceLine& reference : chart.references) {
    content.margin_texts.push_back(reference.name);
  }
  return content;
}

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart)
      : chart_(chart),
        curves_(curves_of(chart)),
        frame_(content_of(chart, curves_), y_range_of(chart)),
        x_(x_range_of(chart), frame_.plot().x + kAxisInset, frame_.plot().right() - kAxisInset),
        svg_(kPageWidth, frame_.page_height(), chart.title, chart.subtitle) {
    KB_CHECK(!chart.x.cut, "'{}': the x axis has a cut", chart.title);
    for (Curve& curve : curves_) place(curve);
  }

  std::string finish() &&;

 private:
  void place(Curve& curve) const;
  void draw_x_axis();
  void draw_lines(const Curve& curve);
  void draw_markers(const Curve& curve);
  void name_beside(const Curve& curve);
  void draw_labels_of_points(const Box& text);
  std::vector<Stretch> crossings_of_cut() const;

  bool is_inside(Position at) const {
    const Box& plot = frame_.plot();
    return at.x >= plot.x - 0.5 && at.x <= plot.right() + 0.5 && at.y >= plot.y - 0.5 &&
           at.y <= plot.bottom() + 0.5;
  }
  Position position_of(const Point& point) const { return {x_(point.x), frame_.y()(point.y)}; }

  const LineChart& chart_;
  std::vector<Curve> curves_;
  ChartFrame frame_;
  AxisMap x_;
  SvgWriter svg_;
  std::vector<MarginLabel> labels_;
  std::vector<Segment> leaders_;  // from the ends of lines to the margin
};

void LineDrawing::place(Curve& curve) const {
  bool goes_on = false;
  for (const Point& point : curve.series->points) {
    const bool shown = is_shown(chart_, point);
    if (shown && !goes_on) curve.runs.emplace_back();
    if (shown) curve.runs.back().push_back(position_of(point));
    goes_on = shown;
  }
  if (curve.series->kind == SeriesKind::points) return;
  for (const auto& run : curve.runs) {
    for (auto& piece : clipped(run, frame_.plot())) curve.pieces.push_back(std::move(piece));
  }
}

void LineDrawing::draw_x_axis() {
  const Box& plot = frame_.plot();
  const std::vector<Tick>& ticks = x_.range().ticks;
  std::vector<double> centres;
  std::vector<double> widths;
  for (const Tick& tick : ticks) {
    const double x = x_(tick.value);
    svg_.line({x, plot.y}, {x, plot.bottom()},
              {.colour = tick.label.empty() ? kMinorGridColour : kGridColour});
    centres.push_back(x);
    widths.push_back(text_width(tick.label, kTextSize));
  }
  svg_.line({plot.x, plot.bottom()}, {plot.right(), plot.bottom()}, kAxisStroke);
  const std::vector<bool> fits = labels_that_fit(centres, widths, 8);
  for (std::size_t i = 0; i < ticks.size(); ++i) {
    if (ticks[i].label.empty()) continue;
    svg_.line({centres[i], plot.bottom()}, {centres[i], plot.bottom() + kXTickLength}, kAxisStroke);
    if (!fits[i]) continue;
    svg_.text({centres[i], plot.bottom() + kXTickLength + kTextSize + 1}, ticks[i].label,
              {.size = kTextSize, .anchor = Anchor::middle});
  }
}

void LineDrawing::draw_lines(const Curve& curve) {
  svg_.begin_group(curve.series->name);
  const bool is_bound = curve.series->kind == SeriesKind::bound;
  for (const auto& piece : curve.pieces) {
    svg_.polyline(piece,
                  is_bound ? kBoundStroke : Stroke{curve.look.colour, kThick, curve.look.dashes});
  }
  svg_.end_group();
}

void LineDrawing::draw_markers(const Curve& curve) {
  const Series& series = *curve.series;
  if (series.kind == SeriesKind::bound) return;
  if (series.kind == SeriesKind::line && series.points.size() > kMostMarkers) {
    for (const auto& run : curve.runs) {  // a single point has no line to show it
      if (run.size() == 1 && is_inside(run.front())) draw_marker(svg_, run.front(), curve.look);
    }
    return;
  }
  for (const Point& point : series.points) {
    if (!is_shown(chart_, point)) continue;
    const Position at = position_of(point);
    if (!is_inside(at)) continue;
    svg_.begin_group(fmt::format("{}: {}, {}", series.name, label_of(chart_.x.labels, point.x),
                                 short_text(point.y)));
    draw_marker(svg_, at, curve.look);
    svg_.end_group();
  }
}

void LineDrawing::name_beside(const Curve& curve) {
  if (!is_named_beside(chart_, *curve.series)) return;
  std::optional<Position> end;
  if (!curve.pieces.empty()) {
    end = curve.pieces.back().back();
  } else if (!curve.runs.empty() && is_inside(curve.runs.back().back())) {
    end = curve.runs.back().back();
  }
  if (!end) return;
  const bool is_bound = curve.series->kind == SeriesKind::bound;
  const Stroke leader{is_bound ? kLeaderColour : curve.look.colour, kThin};
  leaders_.push_back({*end, {frame_.plot().right(), end->y}});
  svg_.line(leaders_.back().from, leaders_.back().to, leader);
  labels_.push_back({curve.series->name, end->y, leader});
}

void LineDrawing::draw_labels_of_points(const Box& text) {
  std::vector<PointLabel> labels;
  Obstacles obstacles{.leaders = leaders_, .text = text};
  for (const ReferenceLine& reference : chart_.references) {
    if (!can_show(chart_.y.scale, reference.y)) continue;
    const double y = frame_.y()(reference.y);
    obstacles.lines.push_back({{frame_.plot().x, y}, {frame_.plot().right(), y}});
  }
  for (const Curve& curve : curves_) {
    for (const Point& point : curve.series->points) {
      if (!is_shown(chart_, point) || !is_inside(position_of(point))) continue;
      obstacles.points.push_back(position_of(point));
      if (!point.label.empty()) labels.push_back({position_of(point), point.label});
    }
    for (const auto& piece : curve.pieces) {
      for (std::size_t i = 1; i < piece.size(); ++i)
        obstacles.lines.push_back({piece[i - 1], piece[i]});
    }
  }
  draw_point_labels(svg_, labels, obstacles, frame_.plot());
}

std::vector<Stretch> LineDrawing::crossings_of_cut() const {
  constexpr double kRoom = 8;  // beside the line
  std::vector<Stretch> crossings;
  if (!frame_.y().range().cut) return crossings;
  const Box gap = frame_.gap_of_cut();
  for (const Curve& curve : curves_) {
    for (const auto& piece : curve.pieces) {
      for (const auto& inside : clipped(piece, {gap.x, gap.y + 1, gap.w, gap.h - 2})) {
        const auto [left, right] = std::ranges::minmax_element(inside, {}, &Position::x);
        crossings.push_back({left->x - kRoom, right->x + kRoom});
      }
    }
  }
  return crossings;
}

std::string LineDrawing::finish() && {
  frame_.draw(svg_);
  draw_x_axis();
  frame_.clear_gap(svg_);
  for (const ReferenceLine& reference : chart_.references) {
    frame_.draw_reference(svg_, reference, labels_);
  }
  // Bounds lie behind the data.
  for (const bool bounds : {true, false}) {
    for (const Curve& curve : curves_) {
      if ((curve.series->kind == SeriesKind::bound) == bounds) draw_lines(curve);
    }
  }
  const Box text = frame_.draw_cut(svg_, crossings_of_cut());
  for (const Curve& curve : curves_) draw_markers(curve);
  for (const Curve& curve : curves_) name_beside(curve);
  draw_margin_labels(svg_, labels_, frame_.plot());
  draw_labels_of_points(text);
  const bool has_data =
      std::ranges::any_of(curves_, [](const Curve& curve) { return !curve.runs.empty(); });
  if (!has_data) frame_.say_no_data(svg_);
  return std::move(svg_).finish();
}

}  // namespace

std::string to_svg(const LineChart& chart) {
  return LineDrawing(chart).finish();
}

}  // namespace kernbench::benches::figure
