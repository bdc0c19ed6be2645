#include "benches/page/time_axis.h"

#include <fmt/format.h>

#include <algorithm>

namespace kernbench::benches::page {

namespace {

constexpr std::int64_t kMostTicks = 8;
constexpr double kLetterWidth = 7;

// The least of 1, 2 and 5 times a power of ten of picoseconds that makes at most kMostTicks steps.
Time choose_step(Time length) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t factor : {1, 2, 5}) {
      if (length.count() / (factor * power) <= kMostTicks) return Time{factor * power};
    }
  }
}

}  // namespace

TimeAxis::TimeAxis(std::span<const runtime::TimedPart> parts, double left, double width)
    : parts_(parts), left_(left), width_(width), length_(runtime::sum_durations(parts)) {}

TimeAxis::TimeAxis(Time end, double left, double width)
    : left_(left), width_(width), length_(end) {}

Time TimeAxis::timed_before(Time at) const {
  Time sum{0};
  for (const runtime::TimedPart& part : parts_) {
    if (at <= part.from) break;
    sum += std::min(at, part.to) - part.from;
  }
  return sum;
}

double TimeAxis::x_of(Time timed) const {
  if (length_ == Time{0}) return left_;
  return left_ + width_ * static_cast<double>(timed.count()) / static_cast<double>(length_.count());
}

void TimeAxis::draw_ticks(Drawing& drawing, double y) const {
  const Time step = choose_step(length_);
  for (Time at{0}; at <= length_; at += step) {
    drawing.line({x_of(at), y}, {x_of(at), y + 4}, "g");
    const bool is_first = at == Time{0};
    drawing.text({x_of(at), y - 2}, is_first ? "0 us" : fmt::format("{:g}", to_ns(at) / 1e3),
                 is_first ? "t" : "t m");
  }
}

void TimeAxis::draw_parts(Drawing& drawing, double top, double bottom) const {
  Time begin{0};
  for (const runtime::TimedPart& part : parts_) {
    const double x = x_of(begin);
    begin += part.duration();
    drawing.line({x, top}, {x, bottom}, "g", part.name);
    const double needed = kLetterWidth * static_cast<double>(part.name.size());
    if (needed < x_of(begin) - x) drawing.text({x + 3, top + 10}, part.name);
  }
}

}  // namespace kernbench::benches::page
