#include "benches/figure/axis.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "sim_engine/base/check.h"

namespace kernbench::benches::figure::axis_test {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;
using Words = std::vector<std::string>;

Words labels_of(const AxisRange& range) {
  Words labels;
  for (const Tick& tick : range.ticks) {
    if (!tick.label.empty()) labels.push_back(tick.label);
  }
  return labels;
}

}  // namespace

TEST_CASE("a linear axis begins at zero and ends at a round number", "[figure][axis]") {
  const AxisRange range = range_of({}, Values{3.1, 17.2}, Fit::ticks);
  CHECK(range.low == 0);
  CHECK(range.high == 20);
  CHECK(labels_of(range) == Words{"0", "5", "10", "15", "20"});
  CHECK(labels_of(range_of({}, Values{0.07}, Fit::ticks)) ==
        Words{"0.00", "0.01", "0.02", "0.03", "0.04", "0.05", "0.06", "0.07"});
  CHECK(labels_of(range_of({}, Values{366}, Fit::ticks)) == Words{"0", "100", "200", "300", "400"});
  CHECK(labels_of(range_of({}, Values{1234}, Fit::ticks)) ==
        Words{"0", "200", "400", "600", "800", "1,000", "1,200", "1,400"});
  CHECK(labels_of(range_of({}, Values{-2, 3}, Fit::ticks)) ==
        Words{"-2", "-1", "0", "1", "2", "3"});
}

TEST_CASE("a linear axis never has more than eight ticks", "[figure][axis]") {
  for (double value = 0.0011; value < 1e9; value *= 1.13) {
    const AxisRange range = range_of({}, Values{value}, Fit::ticks);
    INFO(value);
    CHECK(range.ticks.size() >= 4);
    CHECK(range.ticks.size() <= 8);
    CHECK(range.high >= value);
    CHECK(range.ticks.back().value == Approx(range.high));
  }
}

TEST_CASE("an axis that fits its data ends with them", "[figure][axis]") {
  const AxisRange range = range_of({}, Values{3, 17}, Fit::data);
  CHECK(range.low == 3);
  CHECK(range.high == 17);
  CHECK(labels_of(range) == Words{"4", "6", "8", "10", "12", "14", "16"});
}

TEST_CASE("sizes have ticks at powers of two, or where they are asked for", "[figure][axis]") {
  Axis axis{.scale = Scale::log2, .labels = Labels::binary};
  CHECK(labels_of(range_of(axis, Values{256, 49152}, Fit::data)) ==
        Words{"256", "512", "1 Ki", "2 Ki", "4 Ki", "8 Ki", "16 Ki", "32 Ki"});
  CHECK(labels_of(range_of(axis, Values{1, 1 << 20}, Fit::data)) ==
        Words{"1", "4", "16", "64", "256", "1 Ki", "4 Ki", "16 Ki", "64 Ki", "256 Ki", "1 Mi"});
  const AxisRange fitted = range_of(axis, Values{5, 100}, Fit::ticks);
  CHECK(fitted.low == 4);
  CHECK(fitted.high == 128);
  axis.labels = Labels::bytes;
  axis.ticks = {98304, 16, 1024, 1, kNan, -4};
  CHECK(labels_of(range_of(axis, Values{16, 98304}, Fit::data)) ==
        Words{"16 B", "1 KiB", "96 KiB"});
}

TEST_CASE("times have ticks at powers of ten, and at 2 and 5 if there are few", "[figure][axis]") {
  const Axis axis{.scale = Scale::log10};
  const AxisRange decades = range_of(axis, Values{0.13, 2200}, Fit::ticks);
  CHECK(decades.low == Approx(0.1));
  CHECK(decades.high == Approx(3000));
  CHECK(labels_of(decades) == Words{"0.1", "1", "10", "100", "1,000"});
  CHECK(labels_of(range_of(axis, Values{2.6, 22}, Fit::ticks)) == Words{"2", "5", "10", "20"});
  CHECK(labels_of(range_of(axis, Values{3.2, 6.9}, Fit::ticks)) == Words{"3", "4", "5", "6", "7"});
  CHECK(labels_of(range_of(axis, Values{3.2, 3.3}, Fit::data)) == Words{"3.2", "3.3"});
  CHECK(range_of(axis, Values{1e-9, 1e9}, Fit::ticks).ticks.size() <= 12);
}

TEST_CASE("what an axis cannot show does not move it", "[figure][axis]") {
  const AxisRange linear = range_of({}, Values{kNan, 17.2, kInfinity, -kInfinity}, Fit::ticks);
  CHECK(linear.low == 0);
  CHECK(linear.high == 20);
  const AxisRange logarithmic =
      range_of({.scale = Scale::log10}, Values{0, -5, kNan, 10, 1000}, Fit::data);
  CHECK(logarithmic.low == 10);
  CHECK(logarithmic.high == 1000);
}

TEST_CASE("no values, one and equal ones have an axis too", "[figure][axis]") {
  for (const Scale scale : {Scale::linear, Scale::log2, Scale::log10}) {
    for (const Fit fit : {Fit::data, Fit::ticks}) {
      for (const Values& values : {Values{}, Values{kNan}, Values{1}, Values{7, 7, 7}, Values{0},
                                   Values{1e-300}, Values{1e15, 1e15}}) {
        const AxisRange range = range_of({.scale = scale}, values, fit);
        INFO(static_cast<int>(scale) << ' ' << static_cast<int>(fit) << ' ' << values.size());
        CHECK(range.low < range.high);
        CHECK(!labels_of(range).empty());
        for (const double value : values) {
          if (!can_show(scale, value)) continue;
          CHECK(range.low <= value);
          CHECK(value <= range.high);
        }
      }
    }
  }
  CHECK(range_of({}, Values{-3}, Fit::ticks).high == 0);
}

TEST_CASE("limits that are given hold", "[figure][axis]") {
  const AxisRange both = range_of({.min = 10, .max = 90}, Values{0, 100}, Fit::ticks);
  CHECK(both.low == 10);
  CHECK(both.high == 90);
  CHECK(labels_of(both) == Words{"20", "40", "60", "80"});
  const AxisRange beyond = range_of({.min = 10}, Values{1, 2}, Fit::ticks);
  CHECK(beyond.low == 10);
  CHECK(beyond.high > 10);
  CHECK(range_of({.max = 10}, Values{20}, Fit::data).low < 10);
  CHECK_THROWS_AS(range_of({.min = 2, .max = 1}, Values{}, Fit::ticks), InternalError);
  CHECK_THROWS_AS(range_of({.scale = Scale::log2, .min = 0}, Values{1, 2}, Fit::data),
                  InternalError);
}

TEST_CASE("values go to pixels linearly or by their logarithm", "[figure][axis]") {
  const AxisMap linear({.low = 0, .high = 20}, 400, 100);
  CHECK(linear(0) == 400);
  CHECK(linear(5) == 325);
  CHECK(linear(20) == 100);
  CHECK(linear(30) == -50);
  const AxisMap octaves({.scale = Scale::log2, .low = 8, .high = 8192}, 100, 1100);
  CHECK(octaves(8) == 100);
  CHECK(octaves(16) == 200);
  CHECK(octaves(8192) == 1100);
  CHECK(octaves(8 * std::sqrt(2.0)) == Approx(150));
  const AxisMap decades({.scale = Scale::log10, .low = 0.1, .high = 100}, 400, 100);
  CHECK(decades(0.1) == Approx(400));
  CHECK(decades(1) == Approx(300));
  CHECK(decades(10) == Approx(200));
}

TEST_CASE("a cut leaves one scale on both of its sides", "[figure][axis][cut]") {
  const Axis axis{.cut = AxisCut{30, 360}};
  const AxisRange range = range_of(axis, Values{17.2, 22, 366}, Fit::ticks);
  REQUIRE(range.cut);
  CHECK(range.high == 370);
  CHECK(labels_of(range) == Words{"0", "10", "20", "30", "360", "370"});
  // 40 units and the gap of 32 pixels: 432 pixels are 10 per unit.
  const AxisMap map(range, 432, 0);
  CHECK(map(0) == 432);
  CHECK(map(22) == 212);
  CHECK(map(30) == 132);
  CHECK(map(195) == 116);  // in the middle of the gap
  CHECK(map(360) == 100);
  CHECK(map(366) == 40);
  CHECK(map(370) == 0);
}

TEST_CASE("a cut never hides a value, and is not made for nothing", "[figure][axis][cut]") {
  const Axis axis{.cut = AxisCut{30, 360}};
  CHECK_FALSE(range_of(axis, Values{10, 31, 366}, Fit::ticks).cut);
  CHECK_FALSE(range_of(axis, Values{10, 20}, Fit::ticks).cut);
  CHECK_FALSE(range_of(axis, Values{}, Fit::ticks).cut);
  CHECK_FALSE(range_of(axis, Values{-1, 366}, Fit::ticks).cut);
  CHECK(range_of(axis, Values{30, 360}, Fit::ticks).cut);
  Axis limited = axis;
  limited.max = 100;
  CHECK_FALSE(range_of(limited, Values{10, 366}, Fit::ticks).cut);
  Axis logarithmic = axis;
  logarithmic.scale = Scale::log10;
  CHECK_THROWS_AS(range_of(logarithmic, Values{1, 366}, Fit::ticks), InternalError);
  CHECK_THROWS_AS(range_of({.cut = AxisCut{5, 5}}, Values{1}, Fit::ticks), InternalError);
}

TEST_CASE("a cut is found between values that lie far apart", "[figure][axis][cut]") {
  const auto cut = cut_between(22, 366);
  REQUIRE(cut);
  CHECK(cut->from == 30);
  CHECK(cut->to == 360);
  CHECK_FALSE(cut_between(22, 60));
  CHECK_FALSE(cut_between(22, 10));
  CHECK_FALSE(cut_between(0, 10));
  CHECK_FALSE(cut_between(kNan, 10));
  for (double low = 0.013; low < 1e6; low *= 1.7) {
    for (double ratio = 1.1; ratio < 1e4; ratio *= 1.7) {
      const auto found = cut_between(low, low * ratio);
      INFO(low << ' ' << ratio);
      CHECK((!found || (low < found->from && found->from < found->to && found->to < low * ratio)));
      CHECK((found || ratio < 8));
    }
  }
}

}  // namespace kernbench::benches::figure::axis_test
