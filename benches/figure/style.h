// The style of the figures: colours, sizes, and the looks that distinguish series.

#pragma once

#include <cstdint>
#include <string_view>

#include "benches/figure/svg.h"

namespace kernbench::benches::figure {

// Sizes in pixels.  A figure is printed at half its width, so nothing is small or thin.
inline constexpr double kPageWidth = 900;
inline constexpr double kTitleSize = 20;
inline constexpr double kTextSize = 16;     // axes, legends, labels
inline constexpr double kNoteSize = 15;     // notes, and values beside bars and points
inline constexpr double kSmallSize = 14;    // in boxes
inline constexpr double kLineHeight = 1.3;  // of the font size
inline constexpr double kTextLine = kTextSize * kLineHeight;
inline constexpr double kThin = 1.5;
inline constexpr double kThick = 2.5;

inline constexpr std::string_view kInk = "#222222";
inline constexpr std::string_view kFaintInk = "#595959";  // 7:1 on white
inline constexpr std::string_view kBoundColour = "#767676";
inline constexpr std::string_view kLeaderColour = "#9a9a9a";  // from a line to its name
inline constexpr std::string_view kGridColour = "#dddddd";
inline constexpr std::string_view kMinorGridColour = "#eeeeee";
inline constexpr std::string_view kPaper = "#ffffff";

inline constexpr Stroke kAxisStroke = {.colour = kFaintInk, .width = kThin};
inline constexpr Stroke kBoundStroke = {.colour = kBoundColour, .width = 2, .dashes = "6 4"};

enum class Marker : std::uint8_t {
  circle,
  square,
  triangle,
  diamond,
  triangle_down,
  plus,
  cross,
};

// Colour, marker and dashes each distinguish the series, so that one of them suffices for readers
// who do not see all colours, and in black-and-white print.
struct Look {
  std::string_view colour;
  Marker marker = Marker::circle;
  std::string_view dashes = {};
};

// The first seven differ in everything; the palette is that of Okabe and Ito, without yellow.
// REQUIRES: index >= 0
Look look_of(int index);

void draw_marker(SvgWriter& svg, Position centre, const Look& look);

}  // namespace kernbench::benches::figure
