#include "benches/figure/line_chart.h"

#include <catch2/catch.hpp>
#include <limits>

#include "sim_engine/base/check.h"
#include "test/benches/figure/svg_reader.h"

namespace kernbench::benches::figure::line_chart_test {

namespace {

using test::in_group;
using test::named;
using test::read_svg;
using test::SvgElement;
using test::SvgElements;
using test::text_element;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Without any heading, and with a y axis whose widest label is "20", the plot reaches from
// 16 + 20.8 + 8 + 20.352 + 10 = 75.152 to 900 - 28 = 872, and from 16 + 26 = 42 to 422.  Limits in
// x lie 16 further inside: at 91.152 and 856.
LineChart bare(std::vector<Point> points) {
  return {.title = "", .y = {.max = 20}, .series = {{.name = "a", .points = std::move(points)}}};
}

SvgElement only(const SvgElements& elements) {
  REQUIRE(elements.size() == 1);
  return elements.front();
}

std::string points_of(const std::string& svg, const std::string& series) {
  return only(named(in_group(read_svg(svg), series), "polyline")).attributes.at("points");
}

}  // namespace

TEST_CASE("points lie where the axes say, on linear axes", "[figure][line_chart]") {
  const std::string svg = to_svg(bare({{0, 0}, {5, 10}, {10, 20}}));
  CHECK(points_of(svg, "a") == "91.15,422 473.58,232 856,42");
  const SvgElement marker = only(named(in_group(read_svg(svg), "a: 5, 10.0"), "circle"));
  CHECK(marker.number("cx") == 473.58);
  CHECK(marker.number("cy") == 232);
}

TEST_CASE("points lie where the axes say, on logarithmic axes", "[figure][line_chart]") {
  LineChart chart = bare({{8, 1}, {32, 10}, {128, 100}});
  chart.x = {.scale = Scale::log2, .labels = Labels::binary};
  chart.y = {.scale = Scale::log10, .ticks = {10}};  // as wide as "20"
  CHECK(points_of(to_svg(chart), "a") == "91.15,422 473.58,232 856,42");
}

TEST_CASE("ticks are labelled under and beside their lines", "[figure][line_chart]") {
  const SvgElements elements = read_svg(to_svg(bare({{0, 0}, {10, 20}})));
  CHECK(text_element(elements, "15").number("y") == Approx(137 + 0.36 * 16).margin(0.01));
  CHECK(text_element(elements, "8").number("x") == Approx(91.152 + 0.8 * 764.848).margin(0.01));
  CHECK(test::count_texts(elements, "20") == 1);
  CHECK(test::count_texts(elements, "10") == 2);
}

TEST_CASE("a point that cannot be shown interrupts its line", "[figure][line_chart]") {
  const std::string svg =
      to_svg(bare({{0, 1}, {1, 2}, {2, kNan}, {3, 4}, {4, 5}, {kNan, 6}, {10, 7}}));
  const SvgElements elements = read_svg(svg);
  CHECK(named(in_group(elements, "a"), "polyline").size() == 2);
  CHECK(named(elements, "circle").size() == 5);  // the last one alone, without a line
  LineChart logarithmic = bare({{1, 1}, {2, 0}, {4, -3}, {8, 2}});
  logarithmic.x.scale = logarithmic.y.scale = Scale::log2;
  const SvgElements shown = read_svg(to_svg(logarithmic));
  CHECK(named(shown, "polyline").empty());
  CHECK(named(shown, "circle").size() == 2);
}

TEST_CASE("nothing, one point and equal points are drawn as what they are",
          "[figure][line_chart]") {
  CHECK(test::count_texts(read_svg(to_svg(LineChart{.title = "t"})), "no data") == 1);
  CHECK(test::count_texts(read_svg(to_svg(bare({}))), "no data") == 1);
  CHECK(test::count_texts(read_svg(to_svg(bare({{kNan, 1}}))), "no data") == 1);
  for (const Scale scale : {Scale::linear, Scale::log2, Scale::log10}) {
    LineChart one = bare({{5, 5}});
    one.x.scale = one.y.scale = scale;
    const SvgElements elements = read_svg(to_svg(one));
    CHECK(test::count_texts(elements, "no data") == 0);
    CHECK(only(named(elements, "circle")).number("cx") == Approx(473.58).margin(6));
    one.series[0].points = {{5, 5}, {5, 5}, {5, 5}};
    CHECK(named(read_svg(to_svg(one)), "circle").size() == 3);
  }
}

TEST_CASE("a line ends at the plot's edge, a marker beyond it is not drawn",
          "[figure][line_chart]") {
  LineChart chart = bare({{0, 10}, {10, 30}});
  CHECK(points_of(to_svg(chart), "a") == "91.15,232 473.58,42");
  CHECK(named(read_svg(to_svg(chart)), "circle").size() == 1);
}

TEST_CASE("series differ in colour, marker and dashes", "[figure][line_chart]") {
  for (int i = 0; i < 49; ++i) {
    const Look look = look_of(i);
    for (int j = 0; j < i; ++j) {
      INFO(i << ' ' << j);
      const Look other = look_of(j);
      CHECK((look.colour != other.colour || look.marker != other.marker));
      if (i < 7) {
        CHECK(look.colour != other.colour);
        CHECK(look.marker != other.marker);
        CHECK(look.dashes != other.dashes);
      }
    }
  }
}

TEST_CASE("a series keeps the look that it is given", "[figure][line_chart]") {
  LineChart chart = bare({{0, 1}, {1, 2}});
  chart.series.push_back({.name = "bound", .points = {{0, 1}}, .kind = SeriesKind::bound});
  chart.series.push_back({.name = "b", .points = {{0, 3}, {1, 4}}});
  chart.series.push_back({.name = "c", .points = {{0, 3}, {1, 4}}, .look = 4});
  const SvgElements elements = read_svg(to_svg(chart));
  const auto stroke_of = [&](const std::string& name) {
    return only(named(in_group(elements, name), "polyline")).attributes.at("stroke");
  };
  CHECK(stroke_of("a") == look_of(0).colour);
  CHECK(stroke_of("b") == look_of(1).colour);  // a bound takes no look
  CHECK(stroke_of("c") == look_of(4).colour);
}

TEST_CASE("names stand in the legend, or beside the ends of the lines", "[figure][line_chart]") {
  LineChart chart = bare({{0, 10}, {10, 20}});
  CHECK(test::count_texts(read_svg(to_svg(chart)), "a") == 0);  // there is nothing to tell apart
  chart.series.push_back({.name = "b", .points = {{0, 0}, {10, 5}}});
  const SvgElements above = read_svg(to_svg(chart));
  CHECK(text_element(above, "a").number("y") < 60);
  CHECK(text_element(above, "a").number("y") == text_element(above, "b").number("y"));
  chart.legend = Legend::beside;
  const SvgElements beside = read_svg(to_svg(chart));
  CHECK(text_element(beside, "a").number("x") == text_element(beside, "b").number("x"));
  // At the heights of their last points: 42 and 422 - 5 * 19.
  CHECK(text_element(beside, "a").number("y") == Approx(42 + 0.36 * 16).margin(0.01));
  CHECK(text_element(beside, "b").number("y") == Approx(327 + 0.36 * 16).margin(0.01));
}

TEST_CASE("bounds and references are dashed, grey and named beside", "[figure][line_chart]") {
  LineChart chart = bare({{0, 10}, {10, 20}});
  chart.series.push_back({.name = "bound", .points = {{0, 1}, {10, 5}}, .kind = SeriesKind::bound});
  chart.references = {{"limit", 15}, {"beyond", 50}};
  const SvgElements elements = read_svg(to_svg(chart));
  const SvgElement bound = only(named(in_group(elements, "bound"), "polyline"));
  CHECK(bound.attributes.at("stroke") == kBoundColour);
  CHECK(bound.has("stroke-dasharray"));
  CHECK(named(elements, "polyline").front().attributes.at("stroke") == kBoundColour);  // behind
  const SvgElement limit = only(named(in_group(elements, "limit"), "line"));
  // The legend is 28.8 high: kTextSize * kLineHeight and 8 above it.
  CHECK(limit.number("y1") == 137 + 28.8);
  CHECK(limit.number("y2") == 137 + 28.8);
  CHECK(limit.number("x1") == 75.15);
  CHECK(text_element(elements, "limit").number("x") > limit.number("x2"));
  CHECK(text_element(elements, "bound").number("x") > limit.number("x2"));
  CHECK(test::count_texts(elements, "beyond") == 0);  // above the axis
}

TEST_CASE("a line through a cut is broken by marks, and so is the axis",
          "[figure][line_chart][cut]") {
  LineChart chart = bare({{0, 0}, {10, 370}});
  chart.y = {.max = 370, .cut = AxisCut{30, 360}};
  const std::string svg = to_svg(chart);
  const SvgElements elements = read_svg(svg);
  // 40 units in 380 - 32 pixels: the gap reaches from 129 to 161.  Labels are as wide as "370", so
  // x begins at 101.328.
  CHECK(points_of(svg, "a") == "101.33,422 856,42");
  const SvgElements marks = in_group(elements, "30 to 360 left out");
  CHECK(named(marks, "polygon").size() == 2);   // on the axis and on the line
  CHECK(named(marks, "polyline").size() == 4);  // two zig-zag lines each
  // The line enters the gap at 101.328 + 754.672 * 261 / 380; its mark has 8 more on either side.
  const std::string zig_zag = named(marks, "polyline").back().attributes.at("points");
  CHECK(std::stod(zig_zag) == Approx(619.67 - 8).margin(2.5));
  CHECK(test::count_texts(elements,
                          "The y axis leaves out 30 to 360; its scale is the same below and "
                          "above.") == 1);
  chart.series[0].points.push_back({5, 200});  // lies in the cut
  CHECK(to_svg(chart).find("left out") == std::string::npos);
}

TEST_CASE("very many points have no markers, unless they stand alone", "[figure][line_chart]") {
  std::vector<Point> points;
  for (int i = 0; i < 100; ++i) points.push_back({i / 10.0, 3});
  CHECK(named(read_svg(to_svg(bare(points))), "circle").empty());
  points[1].y = kNan;
  CHECK(named(read_svg(to_svg(bare(points))), "circle").size() == 1);
}

TEST_CASE("titles are there for those who do not see the picture", "[figure][line_chart]") {
  LineChart chart = bare({{0, 1}});
  chart.title = "a < b";
  chart.subtitle = "6 SIPs & more";
  const SvgElements elements = read_svg(to_svg(chart));
  CHECK(named(elements, "title").front().text == "a < b");
  CHECK(named(elements, "desc").front().text == "6 SIPs & more");
  CHECK(elements.front().attributes.at("role") == "img");
}

TEST_CASE("the x axis has no cut", "[figure][line_chart]") {
  LineChart chart = bare({{0, 1}});
  chart.x.cut = AxisCut{1, 2};
  CHECK_THROWS_AS(to_svg(chart), InternalError);
}

}  // namespace kernbench::benches::figure::line_chart_test
