#include "benches/figure/style.h"

#include <array>
#include <vector>

#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr std::array<Look, 7> kLooks = {{
    {"#0072b2", Marker::circle, ""},
    {"#d55e00", Marker::square, "11 4"},
    {"#009e73", Marker::triangle, "3 4"},
    {"#cc79a7", Marker::diamond, "11 4 3 4"},
    {"#e69f00", Marker::triangle_down, "6 3"},
    {"#56b4e9", Marker::plus, "16 4"},
    {"#222222", Marker::cross, "3 3 9 3"},
}};

constexpr double kMarkerRadius = 5.5;

// The outline of a marker of radius 1 about the origin; empty for the circle.
std::vector<Position> outline_of(Marker marker) {
  constexpr double kArm = 0.35;  // half the width of the bars of + and x
  switch (marker) {
    case Marker::circle:
      return {};
    case Marker::square:
      return {{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}};
    case Marker::triangle:
      return {{0, -1.2}, {1.15, 0.85}, {-1.15, 0.85}};
    case Marker::diamond:
      return {{0, -1.3}, {1.3, 0}, {0, 1.3}, {-1.3, 0}};
    case Marker::triangle_down:
      return {{0, 1.2}, {1.15, -0.85}, {-1.15, -0.85}};
    case Marker::plus:
      return {{-kArm, -1.2}, {kArm, -1.2}, {kArm, -kArm}, {1.2, -kArm},
              {1.2, kArm},   {kArm, kArm}, {kArm, 1.2},   {-kArm, 1.2},
              {-kArm, kArm}, {-1.2, kArm}, {-1.2, -kArm}, {-kArm, -kArm}};
    case Marker::cross:
      return {{0, -0.5}, {0.7, -1.2}, {1.2, -0.7}, {0.5, 0},  {1.2, 0.7},   {0.7, 1.2},
              {0, 0.5},  {-0.7, 1.2}, {-1.2, 0.7}, {-0.5, 0}, {-1.2, -0.7}, {-0.7, -1.2}};
  }
  return {};
}

}  // namespace

Look look_of(int index) {
  KB_CHECK(index >= 0, "a series has look {}", index);
  const auto at = static_cast<std::size_t>(index);
  Look look = kLooks[at % kLooks.size()];
  // The eighth look differs from the first: the same colour goes with another marker and other
  // dashes.
  const std::size_t round = at / kLooks.size();
  look.marker = kLooks[(at + round) % kLooks.size()].marker;
  look.dashes = kLooks[(at + round) % kLooks.size()].dashes;
  return look;
}

void draw_marker(SvgWriter& svg, Position centre, const Look& look) {
  const Stroke rim{.colour = kPaper, .width = kThin};
  if (look.marker == Marker::circle) {
    svg.circle(centre, kMarkerRadius, look.colour, rim);
    return;
  }
  std::vector<Position> outline = outline_of(look.marker);
  for (Position& corner : outline) {
    corner = {centre.x + kMarkerRadius * corner.x, centre.y + kMarkerRadius * corner.y};
  }
  svg.polygon(outline, look.colour, rim);
}

}  // namespace kernbench::benches::figure
