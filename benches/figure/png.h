// Converts SVG to PNG with the program rsvg-convert (Debian's librsvg2-bin).
//
// A figure is complete as SVG: a failed conversion is reported, but is no error.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace kernbench::benches::figure {

inline constexpr std::string_view kConverter = "rsvg-convert";

struct Png {
  std::string bytes;    // empty if there is a problem
  std::string problem;  // one line; empty if there is none
};

// `width` in pixels; the height follows.  `converter` is searched for in PATH if it is a bare name.
Png to_png(std::string_view svg, int width, const std::string& converter = std::string(kConverter));

// Writes `stem`.svg and, if it can be converted, `stem`.png at twice the figure's width, for
// screens and print of any resolution.  Returns the problem with the PNG, in one line that names
// it; empty if there is none.  A PNG of an earlier figure is removed.  Throws IoError KB-I010 or
// KB-I011 if a file cannot be written.
std::string write_figure(const std::filesystem::path& stem, std::string_view svg,
                         const std::string& converter = std::string(kConverter));

}  // namespace kernbench::benches::figure
