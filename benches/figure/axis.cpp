#include "benches/figure/axis.h"

#include <algorithm>
#include <cmath>

#include "benches/figure/number_text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr int kMostLinearTicks = 8;
constexpr int kMostLog2Ticks = 13;
constexpr int kFewestLog10Ticks = 3;

struct Limits {
  double low = 0;
  double high = 1;
};

// 1, 2 or 5 times a power of ten, such that `span` has at most kMostLinearTicks - 1 steps.
struct Step {
  double size = 1;
  int decimals = 0;  // needed for its multiples
};

Step step_for(double span) {
  const double least = span / (kMostLinearTicks - 1);
  int exponent = static_cast<int>(std::floor(std::log10(least)));
  double digit = std::ceil(least / std::pow(10.0, exponent) - 1e-9);
  digit = digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10;
  if (digit == 10) {
    digit = 1;
    ++exponent;
  }
  return {digit * std::pow(10.0, exponent), std::max(0, -exponent)};
}

double multiple_below(double value, double step) {
  return std::floor(value / step + 1e-9) * step;
}

double multiple_above(double value, double step) {
  return std::ceil(value / step - 1e-9) * step;
}

// Rounds down or up to one digit times a power of ten, or to a power of two.
double log_below(Scale scale, double value) {
  if (scale == Scale::log2) return std::exp2(std::floor(std::log2(value) + 1e-9));
  const double power = std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  return multiple_below(value, power);
}

double log_above(Scale scale, double value) {
  if (scale == Scale::log2) return std::exp2(std::ceil(std::log2(value) - 1e-9));
  const double power = std::pow(10.0, std::floor(std::log10(value) + 1e-9));
  return multiple_above(value, power);
}

std::optional<Limits> limits_of(Scale scale, std::span<const double> values) {
  std::optional<Limits> limits;
  for (const double value : values) {
    if (!can_show(scale, value)) continue;
    if (!limits) limits = Limits{value, value};
    limits->low = std::min(limits->low, value);
    limits->high = std::max(limits->high, value);
  }
  return limits;
}

// Makes equal limits differ, with room on both sides.
Limits spread(Scale scale, Limits limits) {
  if (limits.low < limits.high) return limits;
  if (scale != Scale::linear) return {limits.low / 2, limits.high * 2};
  const double room = limits.low == 0 ? 1 : std::abs(limits.low) / 2;
  return {limits.low - room, limits.high + room};
}

// The span of the axis without the cut.
double shown_span(const Limits& limits, const std::optional<AxisCut>& cut) {
  return limits.high - limits.low - (cut ? cut->to - cut->from : 0);
}

Limits fitted_to_ticks(Scale scale, Limits limits, const std::optional<AxisCut>& cut) {
  if (scale != Scale::linear) {
    return spread(scale, {log_below(scale, limits.low), log_above(scale, limits.high)});
  }
  limits = {std::min(0.0, limits.low), std::max(0.0, limits.high)};
  if (limits.low == limits.high) return {0, 1};
  const double step = step_for(shown_span(limits, cut)).size;
  return {multiple_below(limits.low, step), multiple_above(limits.high, step)};
}

std::optional<AxisCut> useful_cut(const Axis& axis, std::span<const double> values) {
  if (!axis.cut) return {};
  KB_CHECK(axis.scale == Scale::linear, "'{}' is logarithmic and has a cut", axis.title);
  KB_CHECK(0 < axis.cut->from && axis.cut->from < axis.cut->to, "a cut from {} to {}",
           axis.cut->from, axis.cut->to);
  if (axis.min.value_or(0) >= axis.cut->from || axis.max.value_or(axis.cut->to) < axis.cut->to) {
    return {};
  }
  bool cuts_off = false;
  for (const double value : values) {
    if (!can_show(axis.scale, value)) continue;
    if (value < 0 || (axis.cut->from < value && value < axis.cut->to)) return {};
    cuts_off |= value >= axis.cut->to;
  }
  return cuts_off ? axis.cut : std::nullopt;
}

std::vector<Tick> linear_ticks(const Axis& axis, const AxisRange& range) {
  const Step step = step_for(shown_span({range.low, range.high}, range.cut));
  std::vector<Tick> ticks;
  const auto first = std::llround(multiple_above(range.low, step.size) / step.size);
  const auto last = std::llround(multiple_below(range.high, step.size) / step.size);
  for (auto i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step.size;
    const double slack = step.size * 1e-9;
    if (range.cut && value > range.cut->from + slack && value < range.cut->to - slack) {
      i = std::llround(multiple_above(range.cut->to, step.size) / step.size) - 1;
      continue;
    }
    const bool is_plain = axis.labels == Labels::plain && std::abs(value) < 1e6 && step.size > 1e-5;
    ticks.push_back(
        {value, is_plain ? fixed_text(value, step.decimals) : label_of(axis.labels, value)});
  }
  return ticks;
}

std::vector<Tick> log2_ticks(const Axis& axis, const AxisRange& range) {
  const int first = static_cast<int>(std::ceil(std::log2(range.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log2(range.high) + 1e-9));
  const int stride = (last - first) / kMostLog2Ticks + 1;
  std::vector<Tick> ticks;
  for (int i = first; i <= last; i += stride) {
    ticks.push_back({std::exp2(i), label_of(axis.labels, std::exp2(i))});
  }
  return ticks;
}

// Which multiples of a power of ten have labels, `density` 0, 1 and 2.
bool has_label(int digit, int density) {
  if (density == 0) return digit == 1;
  return density == 2 || digit == 1 || digit == 2 || digit == 5;
}

std::vector<Tick> log10_ticks(const Axis& axis, const AxisRange& range, int density) {
  const int first = static_cast<int>(std::floor(std::log10(range.low)));
  const int last = static_cast<int>(std::ceil(std::log10(range.high)));
  const int stride = (last - first) / 10 + 1;
  std::vector<Tick> ticks;
  for (int exponent = first; exponent <= last; exponent += stride) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double value = digit * std::pow(10.0, exponent);
      if (value < range.low * (1 - 1e-9) || value > range.high * (1 + 1e-9)) continue;
      if (has_label(digit, density)) {
        ticks.push_back({value, label_of(axis.labels, value)});
      } else if (last - first <= 4) {
        ticks.push_back({value, ""});
      }
    }
  }
  return ticks;
}

std::ptrdiff_t label_count(const std::vector<Tick>& ticks) {
  return std::ranges::count_if(ticks, [](const Tick& tick) { return !tick.label.empty(); });
}

std::vector<Tick> given_ticks(const Axis& axis, const AxisRange& range) {
  std::vector<double> values = axis.ticks;
  std::ranges::sort(values);
  std::vector<Tick> ticks;
  for (const double value : values) {
    if (!can_show(axis.scale, value) || value < range.low || value > range.high) continue;
    if (range.cut && value > range.cut->from && value < range.cut->to) continue;
    ticks.push_back({value, label_of(axis.labels, value)});
  }
  return ticks;
}

std::vector<Tick> ticks_of(const Axis& axis, const AxisRange& range) {
  if (!axis.ticks.empty()) return given_ticks(axis, range);
  if (axis.scale == Scale::linear) return linear_ticks(axis, range);
  std::vector<Tick> ticks;
  if (axis.scale == Scale::log2) {
    ticks = log2_ticks(axis, range);
  } else {
    for (int density = 0; density < 3 && label_count(ticks) < kFewestLog10Ticks; ++density) {
      ticks = log10_ticks(axis, range, density);
    }
  }
  if (label_count(ticks) > 0) return ticks;
  return {{range.low, label_of(axis.labels, range.low)},
          {range.high, label_of(axis.labels, range.high)}};
}

}  // namespace

std::string label_of(Labels labels, double value) {
  if (labels == Labels::binary) return binary_text(value);
  return labels == Labels::bytes ? bytes_text(value) : plain_text(value);
}

bool can_show(Scale scale, double value) {
  return std::isfinite(value) && (scale == Scale::linear || value > 0);
}

std::optional<AxisCut> cut_between(double low, double high) {
  if (!(0 < low && low < high)) return {};
  const double step = step_for(low * 1.5).size;
  const AxisCut cut{multiple_above(low * 1.15, step), multiple_below(high - low * 0.2, step)};
  if (cut.to - cut.from < high * 2 / 3) return {};
  return cut;
}

AxisRange range_of(const Axis& axis, std::span<const double> values, Fit fit) {
  const Limits none = axis.scale == Scale::linear ? Limits{0, 1} : Limits{1, 10};
  const std::optional<AxisCut> cut = useful_cut(axis, values);
  Limits limits = limits_of(axis.scale, values).value_or(none);
  limits = {axis.min.value_or(limits.low), axis.max.value_or(limits.high)};
  const Limits fitted =
      fit == Fit::ticks ? fitted_to_ticks(axis.scale, limits, cut) : spread(axis.scale, limits);
  AxisRange range{.scale = axis.scale,
                  .low = axis.min.value_or(fitted.low),
                  .high = axis.max.value_or(fitted.high),
                  .cut = cut};
  if (range.low >= range.high) {  // the data lie beyond the one limit that was given
    if (!axis.max) range.high = spread(axis.scale, {range.low, range.low}).high;
    if (!axis.min) range.low = spread(axis.scale, {range.high, range.high}).low;
  }
  KB_CHECK(can_show(axis.scale, range.low) && range.low < range.high, "'{}' reaches from {} to {}",
           axis.title, range.low, range.high);
  range.ticks = ticks_of(axis, range);
  return range;
}

AxisMap::AxisMap(AxisRange range, double low_pixel, double high_pixel)
    : range_(std::move(range)), low_pixel_(low_pixel), per_unit_(1) {
  double pixels = high_pixel - low_pixel;
  double span = position(range_.high) - position(range_.low);
  if (range_.cut) {
    pixels -= std::copysign(kGap, pixels);
    span -= range_.cut->to - range_.cut->from;
  }
  per_unit_ = pixels / span;
}

// The position on the unscaled axis, which includes the cut.
double AxisMap::position(double value) const {
  if (range_.scale == Scale::linear) return value;
  return range_.scale == Scale::log2 ? std::log2(value) : std::log10(value);
}

double AxisMap::operator()(double value) const {
  const double low = position(range_.low);
  if (!range_.cut || value <= range_.cut->from) {
    return low_pixel_ + (position(value) - low) * per_unit_;
  }
  const double gap = std::copysign(kGap, per_unit_);
  const auto [from, to] = *range_.cut;
  const double bottom = low_pixel_ + (from - low) * per_unit_;
  if (value < to) return bottom + gap * (value - from) / (to - from);
  return bottom + gap + (value - to) * per_unit_;
}

}  // namespace kernbench::benches::figure
