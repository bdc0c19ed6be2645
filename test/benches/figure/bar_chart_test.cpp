#include "benches/figure/bar_chart.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <limits>

#include "sim_engine/base/check.h"
#include "test/benches/figure/svg_reader.h"

namespace kernbench::benches::figure::bar_chart_test {

namespace {

using test::in_group;
using test::named;
using test::read_svg;
using test::SvgElement;
using test::SvgElements;
using test::text_element;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

BarChart bare(std::vector<double> values) {
  BarChart chart{.title = "", .y = {.max = 20}};
  for (std::size_t i = 0; i < values.size(); ++i) chart.groups.push_back(fmt::format("g{}", i));
  chart.series = {{.name = "a", .values = std::move(values)}};
  return chart;
}

SvgElement bar_of(const SvgElements& elements, const std::string& title) {
  const SvgElements bars = named(in_group(elements, title), "rect");
  REQUIRE(bars.size() == 1);
  return bars.front();
}

}  // namespace

TEST_CASE("a bar is as high as its value, from zero", "[figure][bar_chart]") {
  // The plot reaches from 75.152 to 872 and is 380 high; a value's label has 14.5 * 1.3 + 8 above.
  const SvgElements elements = read_svg(to_svg(bare({5, 20, 0})));
  const SvgElement five = bar_of(elements, "a, g0: 5");
  const SvgElement twenty = bar_of(elements, "a, g1: 20");
  CHECK(five.number("height") == 95);
  CHECK(twenty.number("height") == 380);
  CHECK(bar_of(elements, "a, g2: 0").number("height") == 0);
  CHECK(five.number("y") + 95 == Approx(twenty.number("y") + 380));
  CHECK(five.number("width") == 70);
  // In the middle of the first third.
  CHECK(five.number("x") + 35 == Approx(75.152 + 796.848 / 6).margin(0.01));
}

TEST_CASE("stacked bars stand on each other, with their values inside", "[figure][bar_chart]") {
  BarChart chart = bare({5, 10});
  chart.series.push_back({.name = "b", .values = {15, 1}});
  chart.bars = Bars::stacked;
  const SvgElements elements = read_svg(to_svg(chart));
  const SvgElement a = bar_of(elements, "a, g0: 5");
  const SvgElement b = bar_of(elements, "b, g0: 15");
  CHECK(b.number("x") == a.number("x"));
  CHECK(b.number("width") == a.number("width"));
  CHECK(b.number("y") + b.number("height") == Approx(a.number("y")));
  CHECK(b.number("height") == Approx(3 * a.number("height")));
  CHECK(test::count_texts(elements, "15") == 2);  // in the bar, and at the axis
  // A value that has no room in its bar is not written.
  CHECK(bar_of(elements, "b, g1: 1").number("height") == Approx(19));
  CHECK(test::count_texts(elements, "1") == 0);
  CHECK(test::count_texts(elements, "b") == 1);  // in the legend
}

TEST_CASE("the axis of stacked bars holds their sums", "[figure][bar_chart]") {
  BarChart chart = bare({5, 10});
  chart.y.max.reset();
  chart.series.push_back({.name = "b", .values = {15, 40}});
  chart.bars = Bars::stacked;
  const SvgElements elements = read_svg(to_svg(chart));
  CHECK(test::count_texts(elements, "50") == 1);
  chart.y.cut = cut_between(20, 400);
  CHECK_THROWS_AS(to_svg(chart), InternalError);
}

TEST_CASE("bars of a group stand side by side", "[figure][bar_chart]") {
  BarChart chart = bare({5, 10});
  chart.series.push_back({.name = "b", .values = {6, 11}});
  const SvgElements elements = read_svg(to_svg(chart));
  const SvgElement a = bar_of(elements, "a, g0: 5");
  const SvgElement b = bar_of(elements, "b, g0: 6");
  CHECK(b.number("x") == Approx(a.number("x") + 72));
  CHECK(a.attributes.at("fill") == look_of(0).colour);
  CHECK(b.attributes.at("fill") == look_of(1).colour);
  CHECK(test::count_texts(elements, "a") == 1);  // in the legend
  CHECK(test::count_texts(elements, "b") == 1);
}

TEST_CASE("values stand above their bars, in the same precision", "[figure][bar_chart]") {
  const SvgElements elements = read_svg(to_svg(bare({5, 17.25, kNan})));
  const SvgElement bar = bar_of(elements, "a, g0: 5.00");
  const SvgElement value = text_element(elements, "5.00");
  CHECK(value.number("y") == Approx(bar.number("y") - 5));
  CHECK(value.number("x") == Approx(bar.number("x") + 35));
  CHECK(test::count_texts(elements, "17.2") == 1);
  CHECK(test::count_texts(elements, "n/a") == 1);
  CHECK(named(elements, "rect").size() == 3);  // the page and two bars
}

TEST_CASE("values are turned where bars are narrow, and left out where they are too narrow",
          "[figure][bar_chart]") {
  BarChart chart = bare(std::vector<double>(8, 12.5));
  for (const char* name : {"b", "c"}) {
    chart.series.push_back({.name = name, .values = std::vector<double>(8, 11.5)});
  }
  const SvgElements turned = read_svg(to_svg(chart));
  CHECK(test::count_texts(turned, "12.5") == 8);
  for (const SvgElement& text : named(turned, "text")) {
    if (text.text == "12.5") {
      CHECK(text.attributes.at("transform").starts_with("rotate(-90 "));
    }
  }
  const BarChart many = bare(std::vector<double>(60, 12.5));
  CHECK(test::count_texts(read_svg(to_svg(many)), "12.5") == 0);
}

TEST_CASE("group names are wrapped, and turned if even a word is too wide", "[figure][bar_chart]") {
  BarChart chart = bare({1, 2, 3, 4, 5, 6});
  chart.groups[0] = "two words or three";
  const SvgElements wrapped = read_svg(to_svg(chart));
  CHECK(test::count_texts(wrapped, "two words") == 1);
  CHECK(test::count_texts(wrapped, "or three") == 1);
  chart.groups[3] = "one_very_long_word_without_blanks";
  const SvgElements turned = read_svg(to_svg(chart));
  CHECK(text_element(turned, chart.groups[3]).attributes.at("transform").starts_with("rotate(-35"));
  CHECK(turned.front().number("height") > wrapped.front().number("height"));
  chart.groups[0] = chart.groups[3];  // would leave the page on its left
  chart.groups[3] = "g3";
  const SvgElements upright = read_svg(to_svg(chart));
  CHECK(
      text_element(upright, chart.groups[0]).attributes.at("transform").starts_with("rotate(-90"));
}

TEST_CASE("what is left out is written beside the bars that are broken",
          "[figure][bar_chart][cut]") {
  BarChart chart = bare({366});
  chart.y = {.cut = AxisCut{30, 360}};
  const SvgElements elements = read_svg(to_svg(chart));
  const SvgElement bar = bar_of(elements, "a, g0: 366");
  const SvgElement label = text_element(elements, "30 to 360 left out");
  CHECK(label.number("x") - 60 > bar.number("x") + bar.number("width"));
}

TEST_CASE("what is left out is not written over a value", "[figure][bar_chart][cut]") {
  BarChart chart = bare({29.9, 366});
  chart.y = {.cut = AxisCut{30, 360}};
  const double beside = text_element(read_svg(to_svg(chart)), "30 to 360 left out").number("x");
  chart = bare({1, 366});
  chart.y = {.cut = AxisCut{30, 360}};
  CHECK(text_element(read_svg(to_svg(chart)), "30 to 360 left out").number("x") != beside);
}

TEST_CASE("a bar through the cut is broken, and so is the axis", "[figure][bar_chart][cut]") {
  BarChart chart = bare({17.2, 366});
  chart.y = {.cut = cut_between(17.2, 366)};
  chart.reference_groups = 1;
  const SvgElements elements = read_svg(to_svg(chart));
  const SvgElements marks = in_group(elements, "20 to 360 left out");
  CHECK(named(marks, "polygon").size() == 2);
  CHECK(named(marks, "polyline").size() == 4);
  // 30 units in 380 - 32 pixels.
  CHECK(bar_of(elements, "a, g0: 17.2").number("height") == Approx(17.2 * 11.6).margin(0.01));
  CHECK(bar_of(elements, "a, g1: 366").number("height") == Approx(26 * 11.6 + 32).margin(0.01));
  CHECK(bar_of(elements, "a, g0: 17.2").attributes.at("fill") == look_of(0).colour);
  CHECK(bar_of(elements, "a, g1: 366").attributes.at("fill") == kBoundColour);
}

TEST_CASE("bars that leave the axis end at its top", "[figure][bar_chart]") {
  CHECK(bar_of(read_svg(to_svg(bare({25}))), "a, g0: 25").number("height") == 380);
}

TEST_CASE("a chart without bars says so", "[figure][bar_chart]") {
  CHECK(test::count_texts(read_svg(to_svg(BarChart{.title = "t"})), "no data") == 1);
  CHECK(test::count_texts(read_svg(to_svg(BarChart{.title = "t", .groups = {"g"}})), "no data") ==
        1);
}

TEST_CASE("bars are lengths from zero", "[figure][bar_chart]") {
  BarChart negative = bare({-1});
  CHECK_THROWS_AS(to_svg(negative), InternalError);
  BarChart logarithmic = bare({1});
  logarithmic.y.scale = Scale::log10;
  CHECK_THROWS_AS(to_svg(logarithmic), InternalError);
  BarChart raised = bare({1});
  raised.y.min = 0.5;
  CHECK_THROWS_AS(to_svg(raised), InternalError);
  BarChart uneven = bare({1, 2});
  uneven.groups.pop_back();
  CHECK_THROWS_AS(to_svg(uneven), InternalError);
}

}  // namespace kernbench::benches::figure::bar_chart_test
