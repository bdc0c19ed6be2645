// The horizontal axis of charts over time.

#pragma once

#include <span>

#include "benches/page/drawing.h"
#include "runtime/simulation/timed_parts.h"

namespace kernbench::benches::page {

// An axis over the parts of a run that were timed, each beside the one before it: what lies between
// two of them has no room.
class TimeAxis {
 public:
  // REQUIRES: the parts are in their order in time
  TimeAxis(std::span<const runtime::TimedPart> parts, double left, double width);
  // The axis of a whole run.
  TimeAxis(Time end, double left, double width);

  Time length() const { return length_; }
  // Returns the time of the parts before a moment of the run.
  Time timed_before(Time at) const;
  // Returns the place of so much timed time.
  double x_of(Time timed) const;

  // Draws ticks with the timed time above `y`.
  void draw_ticks(Drawing& drawing, double y) const;
  // Draws the borders of parts from `top` to `bottom`, and above them the names for which there is
  // room.
  void draw_parts(Drawing& drawing, double top, double bottom) const;

 private:
  const std::span<const runtime::TimedPart> parts_;
  const double left_;
  const double width_;
  const Time length_;
};

}  // namespace kernbench::benches::page
