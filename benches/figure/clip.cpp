#include "benches/figure/clip.h"

#include <algorithm>

namespace kernbench::benches::figure {

namespace {

// The part of a segment, from 0 at its beginning to 1 at its end.
struct Part {
  double from = 0;
  double to = 1;
};

// Shortens `part` to where start + t * step lies within low..high (Liang and Barsky).
void shorten(Part& part, double start, double step, double low, double high) {
  if (step == 0) {
    if (start < low || start > high) part = {1, 0};
    return;
  }
  const double first = ((step > 0 ? low : high) - start) / step;
  const double last = ((step > 0 ? high : low) - start) / step;
  part = {std::max(part.from, first), std::min(part.to, last)};
}

}  // namespace

std::vector<std::vector<Position>> clipped(std::span<const Position> points, const Box& box) {
  std::vector<std::vector<Position>> pieces;
  bool goes_on = false;  // the last piece ends where the next segment begins
  for (std::size_t i = 1; i < points.size(); ++i) {
    const Position start = points[i - 1];
    const Position step{points[i].x - start.x, points[i].y - start.y};
    Part part;
    shorten(part, start.x, step.x, box.x, box.right());
    shorten(part, start.y, step.y, box.y, box.bottom());
    if (part.from > part.to) {
      goes_on = false;
      continue;
    }
    const auto at = [&](double t) { return Position{start.x + t * step.x, start.y + t * step.y}; };
    if (!goes_on) pieces.push_back({at(part.from)});
    pieces.back().push_back(at(part.to));
    goes_on = part.to == 1;
  }
  return pieces;
}

}  // namespace kernbench::benches::figure
