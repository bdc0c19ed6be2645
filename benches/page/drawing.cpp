#include "benches/page/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kernbench::benches::page {

using figure::escaped;

Drawing::Drawing(double width, double height, std::string_view name)
    : svg_(fmt::format("<svg viewBox=\"0 0 {:.4g} {:.4g}\" role=\"img\" aria-label=\"{}\" "
                       "style=\"max-width:{:.4g}px\">\n",
                       width, height, escaped(name), 1.25 * width)) {}

void Drawing::end(std::string_view tip, std::string_view element) {
  if (tip.empty()) {
    svg_ += "/>\n";
  } else {
    svg_ += fmt::format("><title>{}</title></{}>\n", escaped(tip), element);
  }
}

void Drawing::box(const Box& box, std::string_view style, std::string_view tip) {
  fmt::format_to(std::back_inserter(svg_),
                 "<rect class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.4g}\" height=\"{:.4g}\"",
                 style, box.x, box.y, std::max(box.w, 0.2), box.h);
  end(tip, "rect");
}

void Drawing::line(Position from, Position to, std::string_view style, std::string_view tip) {
  fmt::format_to(std::back_inserter(svg_),
                 "<line class=\"{}\" x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\"",
                 style, from.x, from.y, to.x, to.y);
  end(tip, "line");
}

void Drawing::heat_line(Position from, Position to, double share, std::string_view tip) {
  line(from, to, fmt::format("l h{}", heat_step(share)), tip);
}

void Drawing::dot(Position at, double radius, std::string_view style, std::string_view tip) {
  fmt::format_to(std::back_inserter(svg_),
                 "<circle class=\"{}\" cx=\"{:.6g}\" cy=\"{:.6g}\" r=\"{:.4g}\"", style, at.x, at.y,
                 radius);
  end(tip, "circle");
}

void Drawing::text(Position at, std::string_view text, std::string_view style) {
  fmt::format_to(std::back_inserter(svg_),
                 "<text class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\">{}</text>\n", style, at.x, at.y,
                 escaped(text));
}

std::string Drawing::finish() && {
  return std::move(svg_) + "</svg>\n";
}

int heat_step(double share) {
  return std::clamp(static_cast<int>(share * 10), 0, 9);
}

std::string section(std::string_view title, std::string_view note, const std::string& content) {
  const std::string said = note.empty() ? "" : fmt::format("<p>{}</p>\n", escaped(note));
  return fmt::format("<section>\n<h2>{}</h2>\n{}<div class=\"wide\">{}</div>\n</section>\n",
                     escaped(title), said, content);
}

}  // namespace kernbench::benches::page
