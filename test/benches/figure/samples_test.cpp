// What holds for every figure: nothing is clipped, nothing is written over something else, and all
// of it can be read at half its size.

#include "test/benches/figure/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numbers>
#include <random>

#include "benches/figure/bar_chart.h"
#include "benches/figure/clip.h"
#include "benches/figure/line_chart.h"
#include "benches/figure/style.h"
#include "benches/figure/text.h"
#include "test/benches/figure/svg_reader.h"

namespace kernbench::benches::figure::samples_test {

namespace {

using test::SvgElement;
using test::SvgElements;

// The corners of the rectangle that a text fills, in order.
struct TextBox {
  std::string text;
  std::array<Position, 4> corners;
};

TextBox box_of(const SvgElement& text) {
  const double size = text.number("font-size");
  const double width = text_width(text.text, size, text.has("font-weight"));
  const std::string anchor =
      text.has("text-anchor") ? text.attributes.at("text-anchor") : std::string("start");
  const double left = anchor == "start" ? 0 : anchor == "middle" ? -width / 2 : -width;
  double angle = 0;
  if (text.has("transform")) {
    REQUIRE(std::sscanf(text.attributes.at("transform").c_str(), "rotate(%lf ", &angle) == 1);
    angle *= std::numbers::pi / 180;
  }
  TextBox box{text.text, {}};
  const std::array<Position, 4> local = {{{left, -0.74 * size},
                                          {left + width, -0.74 * size},
                                          {left + width, 0.2 * size},
                                          {left, 0.2 * size}}};
  for (std::size_t i = 0; i < 4; ++i) {
    box.corners[i] = {
        text.number("x") + std::cos(angle) * local[i].x - std::sin(angle) * local[i].y,
        text.number("y") + std::sin(angle) * local[i].x + std::cos(angle) * local[i].y};
  }
  return box;
}

// Whether a line along one of `one`'s sides has both rectangles on different sides.
bool is_parted(const TextBox& one, const TextBox& other) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Position axis{one.corners[i + 1].x - one.corners[i].x,
                        one.corners[i + 1].y - one.corners[i].y};
    const auto range_of = [&](const TextBox& box) {
      std::array<double, 4> along;
      for (std::size_t k = 0; k < 4; ++k) {
        along[k] = box.corners[k].x * axis.x + box.corners[k].y * axis.y;
      }
      return std::pair(std::ranges::min(along), std::ranges::max(along));
    };
    const auto [low, high] = range_of(one);
    const auto [other_low, other_high] = range_of(other);
    if (high <= other_low || other_high <= low) return true;
  }
  return false;
}

void check_texts_lie_on_the_page(const test::SampleFigure& figure) {
  const SvgElements elements = test::read_svg(figure.svg);
  const double height = elements.front().number("height");
  for (const SvgElement& text : test::named(elements, "text")) {
    INFO(figure.name << ": " << text.text);
    for (const Position& corner : box_of(text).corners) {
      CHECK((corner.x >= 0 && corner.x <= kPageWidth));
      CHECK((corner.y >= 0 && corner.y <= height));
    }
  }
}

void check_texts_lie_apart(const test::SampleFigure& figure) {
  std::vector<TextBox> boxes;
  for (const SvgElement& text : test::named(test::read_svg(figure.svg), "text")) {
    boxes.push_back(box_of(text));
    for (std::size_t i = 0; i + 1 < boxes.size(); ++i) {
      INFO(figure.name << ": '" << boxes[i].text << "' and '" << boxes.back().text << "'");
      CHECK((is_parted(boxes[i], boxes.back()) || is_parted(boxes.back(), boxes[i])));
    }
  }
}

// No line that leads to a label passes through another.
void check_leaders_cross_no_text(const test::SampleFigure& figure) {
  const SvgElements elements = test::read_svg(figure.svg);
  for (const SvgElement& line : test::named(elements, "line")) {
    if (line.attributes.at("stroke") != kLeaderColour) continue;
    const std::array<Position, 2> ends = {
        {{line.number("x1"), line.number("y1")}, {line.number("x2"), line.number("y2")}}};
    for (const SvgElement& text : test::named(elements, "text")) {
      if (text.has("transform")) continue;
      const TextBox box = box_of(text);
      const Position corner = box.corners[0];
      const Box inside{corner.x + 1, corner.y + 1, box.corners[2].x - corner.x - 2,
                       box.corners[2].y - corner.y - 2};
      INFO(figure.name << ": '" << text.text << "'");
      CHECK(clipped(ends, inside).empty());
    }
  }
}

// Draws from all magnitudes that a bench may have, and what no axis can show.
class RandomCharts {
 public:
  explicit RandomCharts(unsigned seed) : generator_(seed) {}

  LineChart line_chart() {
    LineChart chart{.title = words(12), .subtitle = words(20)};
    chart.x = {.title = words(4), .scale = scale(), .labels = labels()};
    chart.y = {.title = words(3), .scale = scale()};
    chart.legend = below(2) == 0 ? Legend::above : Legend::beside;
    const double magnitude = value();
    for (int i = below(9); i > 0; --i) {
      Series series{.name = words(3), .kind = static_cast<SeriesKind>(below(3))};
      for (int j = below(16); j > 0; --j) {
        series.points.push_back(
            {value(), magnitude * (1 + below(40)), below(3) == 0 ? words(2) : ""});
      }
      chart.series.push_back(std::move(series));
    }
    for (int i = below(3); i > 0; --i) chart.references.push_back({words(4), value()});
    if (chart.y.scale == Scale::linear) chart.y.cut = cut_between(magnitude * 41, value());
    return chart;
  }

  BarChart bar_chart() {
    BarChart chart{.title = words(12), .x_title = words(3), .y = {.title = words(3)}};
    chart.groups.resize(static_cast<std::size_t>(below(14)));
    for (std::string& group : chart.groups) group = words(2);
    for (int i = below(5); i > 0; --i) {
      BarSeries series{.name = words(2)};
      for (std::size_t j = 0; j < chart.groups.size(); ++j) series.values.push_back(value());
      chart.series.push_back(std::move(series));
    }
    if (below(2) == 0) chart.references.push_back({words(4), value()});
    chart.y.cut = cut_between(value(), value());
    return chart;
  }

 private:
  int below(int end) { return static_cast<int>(generator_() % static_cast<unsigned>(end)); }
  Scale scale() { return static_cast<Scale>(below(3)); }
  Labels labels() { return static_cast<Labels>(below(3)); }

  double value() {
    if (below(30) == 0) return std::numeric_limits<double>::quiet_NaN();
    if (below(30) == 0) return 0;
    return (1 + below(999)) * std::pow(10.0, below(9) - 5);
  }

  std::string words(int most) {
    std::string text;
    for (int i = below(most) + 1; i > 0; --i) {
      text +=
          std::string(static_cast<std::size_t>(1 + below(9)), static_cast<char>('a' + below(26)));
      if (i > 1) text += ' ';
    }
    return text;
  }

  std::mt19937 generator_;
};

}  // namespace

TEST_CASE("no text of a figure leaves the page or lies on another", "[figure][samples]") {
  for (const test::SampleFigure& figure : test::sample_figures()) {
    check_texts_lie_on_the_page(figure);
    check_texts_lie_apart(figure);
    check_leaders_cross_no_text(figure);
  }
}

TEST_CASE("nor in any other chart", "[figure][samples][exhaustive]") {
  RandomCharts charts(1);
  for (int i = 0; i < 400; ++i) {
    for (const auto& svg : {to_svg(charts.line_chart()), to_svg(charts.bar_chart())}) {
      const test::SampleFigure figure{fmt::format("chart {}", i), svg};
      check_texts_lie_on_the_page(figure);
      check_texts_lie_apart(figure);
      check_leaders_cross_no_text(figure);
    }
  }
}

TEST_CASE("a figure can be read at half its size", "[figure][samples]") {
  for (const test::SampleFigure& figure : test::sample_figures()) {
    for (const SvgElement& element : test::read_svg(figure.svg)) {
      INFO(figure.name << ": " << element.name << ' ' << element.text);
      if (element.has("font-size")) CHECK(element.number("font-size") >= 13);
      if (element.has("stroke-width")) CHECK(element.number("stroke-width") >= 1.5);
    }
  }
}

TEST_CASE("the same data give the same bytes", "[figure][samples]") {
  const auto figures = test::sample_figures();
  const auto again = test::sample_figures();
  REQUIRE(figures.size() == again.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    INFO(figures[i].name);
    CHECK((figures[i].svg == again[i].svg));
  }
}

}  // namespace kernbench::benches::figure::samples_test
