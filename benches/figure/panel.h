// The panels of a topology diagram, and what is drawn inside a cube and inside a PE.

#pragma once

#include <array>
#include <string>
#include <string_view>

#include "benches/figure/style.h"
#include "benches/figure/svg.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::figure {

// A unit has the same colour when drawn as a box and as the frame of the panel of its inside.
inline constexpr std::string_view kSipColour = "#0072b2";
inline constexpr std::string_view kSipFill = "#e3f0f8";
inline constexpr std::string_view kCubeColour = "#00795a";
inline constexpr std::string_view kCubeFill = "#e0f3ec";
inline constexpr std::string_view kPeColour = "#c25400";
inline constexpr std::string_view kPeFill = "#fdebdd";
inline constexpr std::string_view kUnitFill = "#f2f2f2";

inline constexpr Stroke kSipLink = {.colour = kSipColour, .width = 2.5};
inline constexpr Stroke kUcieLink = {.colour = kCubeColour, .width = 2.5};
inline constexpr Stroke kNocLink = {.colour = kPeColour, .width = 2.5};
inline constexpr Stroke kHostLink = {.colour = kFaintInk, .width = 2.5, .dashes = "5 4"};

class Panel {
 public:
  // The four panels of a page, row by row.
  static std::array<Panel, 4> two_by_two();
  static double page_height();

  explicit Panel(const Box& frame) : frame_(frame) {}

  const Box& frame() const { return frame_; }
  // The area below the title and above a key of `keys` lines.
  Box inside(int keys) const;

  void draw_frame(SvgWriter& svg, std::string_view colour, std::string_view title) const;
  // Draws line `row` of the key: a sample and its meaning.
  void draw_key(SvgWriter& svg, int row, const Stroke& sample, std::string_view text) const;

 private:
  Box frame_;
};

// Short texts for the figures of a topology: "64 GB/s, 300 ns".
std::string to_text(Bandwidth bandwidth);
std::string to_text(Time time);
std::string to_text(const LinkSpec& link);

// Draws the PEs in the corners, and the shared units between them.
void draw_cube(SvgWriter& svg, const Panel& panel, const Topology& topology);
// Draws the path of a command through the units, and the memory that they work on.
void draw_pe(SvgWriter& svg, const Panel& panel, const Topology& topology);

}  // namespace kernbench::benches::figure
