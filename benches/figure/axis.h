// An axis: the chart author's description, the limits and ticks that follow from the data, and the
// map from values to pixels.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kernbench::benches::figure {

enum class Scale : std::uint8_t {
  linear,
  log2,   // for sizes: ticks at powers of two
  log10,  // for times and rates: ticks at powers of ten, and at 2 and 5 times them where there is
          // room
};

enum class Labels : std::uint8_t {
  plain,   // "20", "0.5"
  binary,  // "8", "1 Ki", "48 Ki"
  bytes,   // "64 B", "96 KiB"
};

std::string label_of(Labels labels, double value);

// A part of a linear axis that is left out, drawn as a break with its bounds beside it.  What is
// left has one scale, so heights on the same side can be compared, and differences on both.
struct AxisCut {
  double from = 0;
  double to = 0;
};

// A cut between values up to `low` and values from `high` on, at round numbers, with some room on
// both sides.  nullopt if it would leave out less than two thirds of the axis.
std::optional<AxisCut> cut_between(double low, double high);

struct Axis {
  std::string title = {};  // with the unit: "latency (µs)"
  Scale scale = Scale::linear;
  Labels labels = Labels::plain;
  std::vector<double> ticks = {};  // empty: chosen
  std::optional<double> min = {};  // empty: from the data, and 0 for a linear y axis
  std::optional<double> max = {};
  // For a linear y axis.  Ignored where it would hide a value, or cut nothing off.
  std::optional<AxisCut> cut = {};
};

struct Tick {
  double value = 0;
  std::string label = {};  // empty: a grid line only
};

// How limits follow from the data: the range of the data, or of the ticks around the data.
enum class Fit : std::uint8_t { data, ticks };

struct AxisRange {
  Scale scale = Scale::linear;
  double low = 0;
  double high = 1;
  std::vector<Tick> ticks = {};  // ascending, within the limits
  std::optional<AxisCut> cut = {};
};

// True if the value can be shown on such an axis: it is finite, and positive if the axis is
// logarithmic.
bool can_show(Scale scale, double value);

// The limits and ticks of an axis that must show `values`; values that it cannot show are ignored.
// REQUIRES: min < max where both are given, both positive on a logarithmic axis
AxisRange range_of(const Axis& axis, std::span<const double> values, Fit fit);

// Maps values to pixels.
class AxisMap {
 public:
  // The height of the gap that stands for a cut.
  static constexpr double kGap = 32;

  // `low_pixel` and `high_pixel` are the positions of the limits.
  AxisMap(AxisRange range, double low_pixel, double high_pixel);

  // Linear beyond the limits, and through the gap of a cut.  REQUIRES: can_show(value)
  double operator()(double value) const;

  const AxisRange& range() const { return range_; }

 private:
  double position(double value) const;

  AxisRange range_;
  double low_pixel_;
  double per_unit_;  // pixels
};

}  // namespace kernbench::benches::figure
