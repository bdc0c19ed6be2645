#include "benches/figure/svg.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

// Numbers have at most two decimals, no trailing zeros and no minus before a zero, and are the same
// in every locale.
std::string number(double value) {
  KB_CHECK(std::abs(value) < 1e7, "{} lies on no page", value);  // NaN does not either
  const std::int64_t hundredths = std::llround(std::abs(value) * 100);
  std::string text = value < 0 && hundredths != 0 ? "-" : "";
  text += fmt::format("{}", hundredths / 100);
  if (hundredths % 100 == 0) return text;
  text += fmt::format(".{:02}", hundredths % 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

// True if XML 1.0 may contain the character.
bool is_allowed(char32_t code_point) {
  if (code_point < 0x20) return code_point == '\t' || code_point == '\n' || code_point == '\r';
  return code_point != 0xFFFE && code_point != 0xFFFF;
}

std::string_view entity_of(char32_t code_point) {
  switch (code_point) {
    case U'&':
      return "&amp;";
    case U'<':
      return "&lt;";
    case U'>':
      return "&gt;";
    case U'"':
      return "&quot;";
    default:
      return {};
  }
}

std::string_view name_of(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

}  // namespace

std::string escaped(std::string_view text) {
  constexpr std::string_view kReplacement = "\uFFFD";
  std::string result;
  while (!text.empty()) {
    const std::string_view before = text;
    const char32_t code_point = take_code_point(text);
    const std::string_view entity = entity_of(code_point);
    if (!entity.empty()) {
      result += entity;
    } else if (code_point == U'\uFFFD' || !is_allowed(code_point)) {
      result += kReplacement;
    } else {
      result += before.substr(0, before.size() - text.size());
    }
  }
  return result;
}

SvgWriter::SvgWriter(double width, double height, std::string_view title,
                     std::string_view description) {
  const std::string w = number(width);
  const std::string h = number(height);
  svg_ = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
      "viewBox=\"0 0 {} {}\" role=\"img\" "
      "font-family=\"DejaVu Sans, Verdana, Arial, sans-serif\">\n"
      "  <title>{}</title>\n  <desc>{}</desc>",
      w, h, w, h, escaped(title), escaped(description));
  rectangle({0, 0, width, height}, "#ffffff", {});
}

void SvgWriter::open(std::string_view element) {
  svg_ += "\n  <";
  svg_ += element;
}

void SvgWriter::add(std::string_view attribute, std::string_view value) {
  svg_ += fmt::format(" {}=\"{}\"", attribute, escaped(value));
}

void SvgWriter::add(std::string_view attribute, double value) {
  add(attribute, number(value));
}

void SvgWriter::add(std::string_view fill, const Stroke& stroke) {
  add("fill", fill);
  if (stroke.colour != kNoColour) {
    add("stroke", stroke.colour);
    add("stroke-width", stroke.width);
    if (!stroke.dashes.empty()) add("stroke-dasharray", stroke.dashes);
  }
  svg_ += "/>";
}

void SvgWriter::line(Position from, Position to, const Stroke& stroke) {
  open("line");
  add("x1", from.x);
  add("y1", from.y);
  add("x2", to.x);
  add("y2", to.y);
  add(kNoColour, stroke);
}

void SvgWriter::rectangle(const Box& box, std::string_view fill, const Stroke& stroke,
                          double radius) {
  open("rect");
  add("x", box.x);
  add("y", box.y);
  add("width", box.w);
  add("height", box.h);
  if (radius > 0) add("rx", radius);
  add(fill, stroke);
}

void SvgWriter::curve(Position from, Position control, Position other_control, Position to,
                      const Stroke& stroke) {
  const auto pair = [](Position p) { return number(p.x) + ',' + number(p.y); };
  open("path");
  add("d", fmt::format("M{} C{} {} {}", pair(from), pair(control), pair(other_control), pair(to)));
  add(kNoColour, stroke);
}

void SvgWriter::text(Position at, std::string_view text, const TextStyle& style) {
  open("text");
  add("x", at.x);
  add("y", at.y);
  add("font-size", style.size);
  if (style.bold) add("font-weight", "bold");
  if (style.anchor != Anchor::start) add("text-anchor", name_of(style.anchor));
  add("fill", style.colour);
  if (style.turn != 0) {
    add("transform",
        fmt::format("rotate({} {} {})", number(style.turn), number(at.x), number(at.y)));
  }
  svg_ += '>' + escaped(text) + "</text>";
}

std::string SvgWriter::finish() && {
  svg_ += "\n</svg>\n";
  return std::move(svg_);
}

}  // namespace kernbench::benches::figure
