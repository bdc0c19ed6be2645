#include "benches/figure/grid_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "benches/figure/style.h"
#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr int kMostPlaces = 8;
constexpr double kLeastGap = 0.5;   // of a box, at least
constexpr double kWidestGap = 0.9;  // of a box
constexpr double kWidest = 84;
constexpr double kHighest = 44;

Stroke dotted(Stroke stroke) {
  stroke.dashes = "2 5";
  return stroke;
}

// A link between a place and the next one in its dimension.
struct Link {
  double from = 0;
  double to = 0;
  bool is_dotted = false;
};

Link link_between(const Places& places, std::size_t place) {
  const bool from_dots = places.index(place) == Places::kDots;
  const bool to_dots = places.index(place + 1) == Places::kDots;
  return {from_dots ? places.centre(place) : places.end(place),
          to_dots ? places.centre(place + 1) : places.begin(place + 1), from_dots || to_dots};
}

// The distance of a curve's control points from the boxes, such that the curve stays within the
// gaps.
double compute_bend(const Places& places) {
  constexpr double kMostBend = 60;
  return places.count() == 1 ? kMostBend : std::min(kMostBend, places.gap() * 1.2);
}

}  // namespace

Places::Places(int size, bool margins, double from, double length, double widest) {
  if (size <= kMostPlaces) {
    for (int i = 0; i < size; ++i) indices_.push_back(i);
  } else {
    indices_ = {0, 1, 2, kDots, size - 2, size - 1};
  }
  const auto boxes = static_cast<double>(indices_.size());
  const double gaps = boxes - 1 + (margins ? 2 : 0);
  width_ = std::min(widest, length / (boxes + gaps * kLeastGap));
  if (gaps > 0) gap_ = std::min(kWidestGap * width_, (length - boxes * width_) / gaps);
  origin_ = from + (length - boxes * width_ - (boxes - 1) * gap_) / 2;
}

// Rows are joined by curves above or below them, which need margins in y, and columns the other way
// round.  In a dimension of size 2 the wrap-around link is the direct link.
GridDrawing::GridDrawing(int w, int h, bool wraps, const Box& area)
    : w_(w),
      count_(w * h),
      rows_wrap_(wraps && w > 2),
      columns_wrap_(wraps && h > 2),
      x_(w, columns_wrap_, area.x, area.w, kWidest),
      y_(h, rows_wrap_, area.y, area.h, kHighest) {
  KB_CHECK(w > 0 && h > 0, "a grid of {} x {}", w, h);
}

Box GridDrawing::box_at(std::size_t column, std::size_t row) const {
  return {x_.begin(column), y_.begin(row), x_.width(), y_.width()};
}

std::vector<Box> GridDrawing::column(std::size_t place) const {
  std::vector<Box> boxes;
  for (std::size_t row = 0; row < y_.count(); ++row) {
    if (y_.index(row) != Places::kDots) boxes.push_back(box_at(place, row));
  }
  return boxes;
}

std::vector<Box> GridDrawing::row(std::size_t place) const {
  std::vector<Box> boxes;
  for (std::size_t column = 0; column < x_.count(); ++column) {
    if (x_.index(column) != Places::kDots) boxes.push_back(box_at(column, place));
  }
  return boxes;
}

void GridDrawing::draw_row(SvgWriter& svg, std::size_t row, const Stroke& stroke) const {
  const double y = y_.centre(row);
  for (std::size_t i = 1; i <= x_.last(); ++i) {
    const Link link = link_between(x_, i - 1);
    svg.line({link.from, y}, {link.to, y}, link.is_dotted ? dotted(stroke) : stroke);
  }
  if (!rows_wrap_) return;
  const bool is_upper = row <= y_.last() / 2;
  const double edge = is_upper ? y_.begin(row) : y_.end(row);
  const double bend = edge + (is_upper ? -1 : 1) * compute_bend(y_);
  const double first = x_.begin(0) + x_.width() / 4;
  const double last = x_.end(x_.last()) - x_.width() / 4;
  svg.curve({last, edge}, {last, bend}, {first, bend}, {first, edge}, stroke);
}

void GridDrawing::draw_column(SvgWriter& svg, std::size_t column, const Stroke& stroke) const {
  const double x = x_.centre(column);
  for (std::size_t i = 1; i <= y_.last(); ++i) {
    const Link link = link_between(y_, i - 1);
    svg.line({x, link.from}, {x, link.to}, link.is_dotted ? dotted(stroke) : stroke);
  }
  if (!columns_wrap_) return;
  const bool is_left = 2 * column < x_.count();
  const double edge = is_left ? x_.begin(column) : x_.end(column);
  const double bend = edge + (is_left ? -1 : 1) * compute_bend(x_);
  const double first = y_.begin(0) + y_.width() / 4;
  const double last = y_.end(y_.last()) - y_.width() / 4;
  svg.curve({edge, last}, {bend, last}, {bend, first}, {edge, first}, stroke);
}

void GridDrawing::draw(SvgWriter& svg, const GridStyle& style) const {
  for (std::size_t row = 0; row <= y_.last(); ++row) {
    if (y_.index(row) != Places::kDots) draw_row(svg, row, style.link);
  }
  for (std::size_t column = 0; column <= x_.last(); ++column) {
    if (x_.index(column) != Places::kDots) draw_column(svg, column, style.link);
  }
  for (std::size_t row = 0; row <= y_.last(); ++row) {
    for (std::size_t column = 0; column <= x_.last(); ++column) {
      if (x_.index(column) == Places::kDots || y_.index(row) == Places::kDots) continue;
      draw_unit(svg, box_at(column, row), y_.index(row) * w_ + x_.index(column), count_, style);
    }
  }
}

namespace {

// Boxes around an ellipse.
class Round {
 public:
  Round(int count, const Box& area)
      : count_(count),
        rx_((area.w - kWidth) / 2),
        ry_((area.h - kHeight) / 2),
        centre_(area.centre()),
        step_(2 * std::numbers::pi / count) {
    KB_CHECK(count > 2 && count <= kMostInRing, "a ring of {}", count);
  }

  Position at(int i) const { return on_ellipse(i * step_); }

  // A cubic curve along an arc: its control points lie on the tangents at both ends.
  void draw_arc(SvgWriter& svg, int i, const Stroke& stroke) const {
    const double tangent = 4.0 / 3 * std::tan(step_ / 4);
    svg.curve(at(i), control(i * step_, tangent), control((i + 1) * step_, -tangent), at(i + 1),
              stroke);
  }

  void draw_boxes(SvgWriter& svg, const GridStyle& style) const {
    for (int i = 0; i < count_; ++i) draw_unit(svg, box_around(at(i)), i, count_, style);
  }

  static Box box_around(const Position& middle) {
    return {middle.x - kWidth / 2, middle.y - kHeight / 2, kWidth, kHeight};
  }

 private:
  static constexpr double kWidth = 64;
  static constexpr double kHeight = 34;

  Position on_ellipse(double angle) const {
    return {centre_.x + rx_ * std::sin(angle), centre_.y - ry_ * std::cos(angle)};
  }
  Position control(double angle, double length) const {
    const Position end = on_ellipse(angle);
    return {end.x + length * rx_ * std::cos(angle), end.y + length * ry_ * std::sin(angle)};
  }

  const int count_;
  const double rx_;
  const double ry_;
  const Position centre_;
  const double step_;
};

}  // namespace

void draw_ring(SvgWriter& svg, int count, const Box& area, const GridStyle& style) {
  const Round round(count, area);
  for (int i = 0; i < count; ++i) round.draw_arc(svg, i, style.link);
  round.draw_boxes(svg, style);
}

void draw_full_mesh(SvgWriter& svg, int count, const Box& area, const GridStyle& style) {
  const Round round(count, area);
  for (int i = 0; i < count; ++i) {
    for (int other = 0; other < i; ++other) svg.line(round.at(i), round.at(other), style.link);
  }
  round.draw_boxes(svg, style);
}

void draw_star(SvgWriter& svg, int count, const Box& area, const GridStyle& style,
               std::string_view hub) {
  const Round round(count, area);
  for (int i = 0; i < count; ++i) svg.line(round.at(i), area.centre(), style.link);
  const Box middle = Round::box_around(area.centre());
  svg.rectangle(middle, style.fill, {.colour = style.border, .width = kThin}, 3);
  svg.text({middle.centre().x, baseline(middle.centre().y, kSmallSize)}, hub,
           {.size = kSmallSize, .anchor = Anchor::middle});
  round.draw_boxes(svg, style);
}

void draw_unit(SvgWriter& svg, const Box& box, int index, int count, const GridStyle& style) {
  svg.rectangle(box, style.fill, {.colour = style.border, .width = index == 0 ? 3 : kThin}, 3);
  const auto fits = [&](const std::string& name) {
    return text_width(name, kSmallSize) + 3 <= box.w && kSmallSize + 2 <= box.h;
  };
  std::string name = fmt::format("{} {}", style.noun, index);
  if (!fits(fmt::format("{} {}", style.noun, count - 1))) name = fmt::format("{}", index);
  if (!fits(fmt::format("{}", count - 1))) return;
  svg.text({box.centre().x, baseline(box.centre().y, kSmallSize)}, name,
           {.size = kSmallSize, .anchor = Anchor::middle});
}

}  // namespace kernbench::benches::figure
