// Text in figures: code points, widths, lines.
//
// Widths are those of DejaVu Sans, which comes with Debian's fontconfig and is wider than the other
// fonts a viewer may use.  The layout is therefore the same on every machine, and text that fits
// here fits everywhere.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kernbench::benches::figure {

// Removes the first code point from `rest` and returns it.  Invalid UTF-8 becomes U+FFFD.
// REQUIRES: !rest.empty()
char32_t take_code_point(std::string_view& rest);

// Width in pixels of one line of text at a font size in pixels.
double text_width(std::string_view text, double size, bool bold = false);

// `size`, or the smaller font size at which `text` is no wider than `width`.
double fitting_size(std::string_view text, double size, double width, bool bold = false);

// `text` cut at blanks (but not at U+00A0) so that no line is wider than `width`; a longer word has
// a line of its own. At least one line.
std::vector<std::string> wrapped(std::string_view text, double size, double width,
                                 bool bold = false);

}  // namespace kernbench::benches::figure
