#include "benches/figure/bar_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "benches/figure/number_text.h"
#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kWidestBar = 72;
constexpr double kFilled = 0.78;  // of a group's width, by its bars
constexpr double kBelowAxis = 6;
constexpr double kBetweenNames = 8;  // at least between two names
constexpr double kTurn = -35;        // degrees, of group names that are too wide
constexpr double kUpright = -90;     // of those that have no room even so

void check(const BarChart& chart) {
  KB_CHECK(chart.y.scale == Scale::linear && chart.y.min.value_or(0) == 0,
           "'{}': bars are lengths from 0", chart.title);
  KB_CHECK(chart.bars == Bars::grouped || !chart.y.cut, "'{}': stacked bars and a cut",
           chart.title);
  for (const BarSeries& series : chart.series) {
    KB_CHECK(series.values.size() == chart.groups.size(), "'{}' has {} values for {} groups",
             series.name, series.values.size(), chart.groups.size());
    for (const double value : series.values) {
      KB_CHECK(!(value < 0), "'{}': a bar of {}", series.name, value);
    }
  }
}

double finite_or_zero(double value) {
  return std::isfinite(value) ? value : 0;
}

// The value at which a bar begins: the sum of the earlier series if the bars are stacked.
double base_of(const BarChart& chart, std::size_t series, std::size_t group) {
  double base = 0;
  for (std::size_t i = 0; chart.bars == Bars::stacked && i < series; ++i) {
    base += finite_or_zero(chart.series[i].values[group]);
  }
  return base;
}

AxisRange y_range_of(const BarChart& chart) {
  std::vector<double> values;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    for (std::size_t group = 0; group < chart.groups.size(); ++group) {
      values.push_back(base_of(chart, i, group) + chart.series[i].values[group]);
    }
  }
  for (const ReferenceLine& reference : chart.references) values.push_back(reference.y);
  return range_of(chart.y, values, Fit::ticks);
}

Look look_at(const BarChart& chart, std::size_t index) {
  return look_of(chart.series[index].look.value_or(static_cast<int>(index)));
}

double radians(double degrees) {
  return degrees * std::numbers::pi / 180;
}

// The layout of the groups' names, which determines the room that they need.
class GroupNames {
 public:
  // `group` is the width of each, `first` the middle of the first of them.
  GroupNames(const std::vector<std::string>& names, double group, double first) {
    double middle = first;
    for (const std::string& name : names) {
      const double width = text_width(name, kTextSize);
      lines_.push_back(balanced(name, kTextSize, group - kBetweenNames));
      most_lines_ = std::max(most_lines_, lines_.back().size());
      widest_ = std::max(widest_, width);
      for (const std::string& line : lines_.back()) {
        is_turned_ |= text_width(line, kTextSize) > group - kBetweenNames;
      }
      if (width * std::cos(radians(kTurn)) + kTextSize > middle) turn_ = kUpright;
      middle += group;
    }
    if (!is_turned_) return;
    for (std::size_t i = 0; i < names.size(); ++i) lines_[i] = {names[i]};
  }

  double height() const {
    if (!is_turned_) return static_cast<double>(most_lines_) * kTextLine;
    return widest_ * std::sin(-radians(turn_)) + kTextLine;
  }

  void draw(SvgWriter& svg, std::size_t group, Position top) const {
    if (is_turned_) {
      const Position end = turn_ == kUpright ? Position{baseline(top.x, kTextSize), top.y + 2}
                                             : Position{top.x + 4, top.y + kTextSize};
      svg.text(end, lines_[group].front(),
               {.size = kTextSize, .anchor = Anchor::end, .turn = turn_});
      return;
    }
    for (const std::string& line : lines_[group]) {
      svg.text({top.x, top.y + kTextSize + 1}, line, {.size = kTextSize, .anchor = Anchor::middle});
      top.y += kTextLine;
    }
  }

 private:
  std::vector<std::vector<std::string>> lines_;  // of each name
  std::size_t most_lines_ = 1;
  double widest_ = 0;
  bool is_turned_ = false;
  double turn_ = kTurn;
};

struct BarWidths {
  double group = 0;
  double bar = 0;
};

BarWidths widths_of(const BarChart& chart, double plot_width) {
  const double groups = static_cast<double>(std::max<std::size_t>(1, chart.groups.size()));
  const std::size_t beside = chart.bars == Bars::stacked ? 1 : chart.series.size();
  const double bars = static_cast<double>(std::max<std::size_t>(1, beside));
  const double group = plot_width / groups;
  return {group, std::min(kWidestBar, group * kFilled / bars)};
}

// The values above the bars, or inside stacked bars, all in the same layout.
class ValueTexts {
 public:
  ValueTexts(const BarChart& chart, const BarWidths& widths) {
    for (const BarSeries& series : chart.series) {
      for (const double value : series.values) are_whole_ &= is_whole(value);
    }
    for (const BarSeries& series : chart.series) {
      for (const double value : series.values) {
        widest_ = std::max(widest_, text_width(text_of(value), kNoteSize));
      }
    }
    const double room = chart.series.size() == 1 ? widths.group : widths.bar;
    are_turned_ = widest_ + 4 > room;
    are_written_ = !are_turned_ || widths.bar >= kNoteSize + 1;
    are_inside_ = chart.bars == Bars::stacked;
  }

  std::string text_of(double value) const {
    if (!std::isfinite(value)) return "n/a";
    return are_whole_ ? fixed_text(value, 0) : short_text(value);
  }

  // Above a bar.
  double height() const {
    if (are_inside_) return 0;
    return are_turned_ && are_written_ ? widest_ : kNoteSize * kLineHeight;
  }

  double half_width() const { return (are_turned_ ? kNoteSize : widest_) / 2; }

  void draw(SvgWriter& svg, const Box& bar, double value) const {
    if (are_inside_) return draw_inside(svg, bar, value);
    if (!are_written_) return;
    TextStyle style{.size = kNoteSize,
                    .colour = std::isfinite(value) ? kInk : kFaintInk,
                    .anchor = are_turned_ ? Anchor::start : Anchor::middle,
                    .halo = true,
                    .turn = are_turned_ ? -90.0 : 0.0};
    const double x = are_turned_ ? baseline(bar.centre().x, kNoteSize) : bar.centre().x;
    svg.text({x, bar.y - 5}, text_of(value), style);
  }

 private:
  void draw_inside(SvgWriter& svg, const Box& bar, double value) const {
    const bool has_room = bar.h >= kNoteSize * kLineHeight && widest_ + 4 <= bar.w;
    if (!has_room || !std::isfinite(value)) return;
    svg.text({bar.centre().x, baseline(bar.centre().y, kNoteSize)}, text_of(value),
             {.size = kNoteSize, .anchor = Anchor::middle, .halo = true});
  }

  static bool is_whole(double value) { return !std::isfinite(value) || value == std::round(value); }

  bool are_whole_ = true;
  bool are_turned_ = false;
  bool are_written_ = true;
  bool are_inside_ = false;
  double widest_ = 0;
};

FrameContent content_of(const BarChart& chart) {
  FrameContent content{.title = chart.title,
                       .subtitle = chart.subtitle,
                       .note = chart.note,
                       .x_title = chart.x_title,
                       .y_title = chart.y.title};
  for (std::size_t i = 0; i < chart.series.size() && chart.series.size() > 1; ++i) {
    content.legend.push_back({chart.series[i].name, look_at(chart, i), LegendEntry::Sample::bar});
  }
  for (const ReferenceLine& reference : chart.references) {
    content.margin_texts.push_back(reference.name);
  }
  return content;
}

class BarDrawing {
 public:
  BarDrawing(const BarChart& chart, const ChartFrame& frame, const GroupNames& names,
             const ValueTexts& values)
      : chart_(chart),
        frame_(frame),
        names_(names),
        values_(values),
        widths_(widths_of(chart, frame.plot().w)),
        svg_(kPageWidth, frame.page_height(), chart.title, chart.subtitle) {}

  std::string finish() &&;

 private:
  // The rectangle of a bar; its height is that of its value.
  Box bar_at(std::size_t series, std::size_t group) const;
  void draw_bar(std::size_t series, std::size_t group);
  void draw_x_axis();
  std::vector<Stretch> values_in_gap() const;

  const BarChart& chart_;
  const ChartFrame& frame_;
  const GroupNames& names_;
  const ValueTexts& values_;
  const BarWidths widths_;
  SvgWriter svg_;
  std::vector<Stretch> crossings_;
  std::vector<MarginLabel> margin_labels_;
};

Box BarDrawing::bar_at(std::size_t series, std::size_t group) const {
  const Box& plot = frame_.plot();
  const double value = finite_or_zero(chart_.series[series].values[group]);
  const double base = base_of(chart_, series, group);
  const double top = std::max(plot.y, frame_.y()(base + value));
  const double bottom = base > 0 ? frame_.y()(base) : plot.bottom();
  const bool is_stacked = chart_.bars == Bars::stacked;
  const auto beside = static_cast<double>(is_stacked ? 1 : chart_.series.size());
  const auto before = static_cast<double>(is_stacked ? 0 : series);
  const double left =
      plot.x + widths_.group * (static_cast<double>(group) + 0.5) - widths_.bar * beside / 2;
  return {left + widths_.bar * before + 1, top, widths_.bar - 2, bottom - top};
}

void BarDrawing::draw_bar(std::size_t series, std::size_t group) {
  const Box bar = bar_at(series, group);
  const double value = chart_.series[series].values[group];
  if (!std::isfinite(value)) return;
  svg_.begin_group(fmt::format("{}, {}: {}", chart_.series[series].name, chart_.groups[group],
                               values_.text_of(value)));
  const bool is_reference =
      std::ssize(chart_.groups) - static_cast<std::ptrdiff_t>(group) <= chart_.reference_groups;
  svg_.rectangle(bar, is_reference ? kBoundColour : look_at(chart_, series).colour, {});
  svg_.end_group();
  const auto& cut = frame_.y().range().cut;
  if (cut && value >= cut->to) crossings_.push_back({bar.x - 4, bar.right() + 4});
}

void BarDrawing::draw_x_axis() {
  const Box& plot = frame_.plot();
  svg_.line({plot.x, plot.bottom()}, {plot.right(), plot.bottom()}, kAxisStroke);
  for (std::size_t group = 0; group < chart_.groups.size(); ++group) {
    const double x = plot.x + widths_.group * (static_cast<double>(group) + 0.5);
    names_.draw(svg_, group, {x, plot.bottom() + kBelowAxis});
  }
}

// The parts of the cut's gap that are covered by values of bars that end below it.
std::vector<Stretch> BarDrawing::values_in_gap() const {
  std::vector<Stretch> taken;
  if (!frame_.y().range().cut) return taken;
  const Box gap = frame_.gap_of_cut();
  for (std::size_t series = 0; series < chart_.series.size(); ++series) {
    for (std::size_t group = 0; group < chart_.groups.size(); ++group) {
      const Box bar = bar_at(series, group);
      if (bar.y < gap.y || bar.y - values_.height() - 8 > gap.bottom()) continue;
      const double half = values_.half_width();
      taken.push_back({bar.centre().x - half - 4, bar.centre().x + half + 4});
    }
  }
  return taken;
}

std::string BarDrawing::finish() && {
  frame_.draw(svg_);
  for (std::size_t series = 0; series < chart_.series.size(); ++series) {
    for (std::size_t group = 0; group < chart_.groups.size(); ++group) draw_bar(series, group);
  }
  draw_x_axis();
  for (const ReferenceLine& reference : chart_.references) {
    frame_.draw_reference(svg_, reference, margin_labels_);
  }
  frame_.draw_cut(svg_, crossings_, values_in_gap());
  for (std::size_t series = 0; series < chart_.series.size(); ++series) {
    for (std::size_t group = 0; group < chart_.groups.size(); ++group) {
      values_.draw(svg_, bar_at(series, group), chart_.series[series].values[group]);
    }
  }
  draw_margin_labels(svg_, margin_labels_, frame_.plot());
  if (chart_.series.empty() || chart_.groups.empty()) frame_.say_no_data(svg_);
  return std::move(svg_).finish();
}

}  // namespace

std::string to_svg(const BarChart& chart) {
  check(chart);
  const AxisRange y = y_range_of(chart);
  FrameContent content = content_of(chart);
  // The plot's width does not depend on the heights, and they depend on the width.
  const Box plot = ChartFrame(content, y).plot();
  const BarWidths widths = widths_of(chart, plot.w);
  const GroupNames names(chart.groups, widths.group, plot.x + widths.group / 2);
  const ValueTexts values(chart, widths);
  content.x_labels_height = names.height();
  content.value_label_height = values.height();
  const ChartFrame frame(content, y);
  return BarDrawing(chart, frame, names, values).finish();
}

}  // namespace kernbench::benches::figure
