// An SVG document, element by element: the same calls give the same bytes.
//
// Lengths are pixels, x to the right and y down, written with at most two decimals.  Text stays
// text: it can be searched, read aloud and edited.

#pragma once

#include <string>
#include <string_view>

namespace kernbench::benches::figure {

struct Position {
  double x = 0;
  double y = 0;
};

struct Box {
  double x = 0;
  double y = 0;
  double w = 0;
  double h = 0;

  double right() const { return x + w; }
  double bottom() const { return y + h; }
  Position centre() const { return {x + w / 2, y + h / 2}; }
};

inline constexpr std::string_view kNoColour = "none";

struct Stroke {
  std::string_view colour = kNoColour;
  double width = 1.5;
  std::string_view dashes = {};  // as in stroke-dasharray; empty: solid
};

enum class Anchor { start, middle, end };

struct TextStyle {
  double size = 15;
  std::string_view colour = "#222222";
  Anchor anchor = Anchor::start;
  bool bold = false;
  double turn = 0;  // degrees, clockwise about the text's position
};

// Escapes text for element content and attribute values.  Characters that XML cannot hold become
// U+FFFD.
std::string escaped(std::string_view text);

class SvgWriter {
 public:
  // Begins a white page.  Title and description are for readers who cannot see it.
  // REQUIRES: width > 0, height > 0
  SvgWriter(double width, double height, std::string_view title, std::string_view description);

  void line(Position from, Position to, const Stroke& stroke);
  void rectangle(const Box& box, std::string_view fill, const Stroke& stroke, double radius = 0);
  // A cubic Bezier curve.
  void curve(Position from, Position control, Position other_control, Position to,
             const Stroke& stroke);
  // `at` is on the baseline.
  void text(Position at, std::string_view text, const TextStyle& style);

  // Returns the document.
  std::string finish() &&;

 private:
  void open(std::string_view element);  // "\n  <element"
  void add(std::string_view attribute, double value);
  void add(std::string_view attribute, std::string_view value);
  void add(std::string_view fill, const Stroke& stroke);

  std::string svg_;
};

// The baseline of a line of text that is centred on `y`.
inline double baseline(double y, double size) {
  return y + 0.36 * size;
}

}  // namespace kernbench::benches::figure
