#include "benches/page/drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim_engine/base/append.h"

namespace kernbench::benches::page {

using figure::escaped;

namespace {

constexpr int kHeatSteps = 10;

}  // namespace

Drawing::Drawing(double width, double height, std::string_view name)
    : svg_(fmt::format("<svg viewBox=\"0 0 {:.4g} {:.4g}\" role=\"img\" aria-label=\"{}\" "
                       "style=\"min-width:{:.4g}px;max-width:{:.4g}px\">\n",
                       width, height, escaped(name), std::min(width, 560.0), 1.15 * width)) {}

void Drawing::end(std::string_view tip, std::string_view element) {
  if (tip.empty()) {
    svg_ += "/>\n";
  } else {
    svg_ += fmt::format("><title>{}</title></{}>\n", escaped(tip), element);
  }
}

void Drawing::box(const Box& box, std::string_view style, std::string_view tip) {
  append(svg_, "<rect class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\" width=\"{:.4g}\" height=\"{:.4g}\"",
         style, box.x, box.y, std::max(box.w, 0.2), box.h);
  end(tip, "rect");
}

void Drawing::line(Position from, Position to, std::string_view style, std::string_view tip) {
  append(svg_, "<line class=\"{}\" x1=\"{:.6g}\" y1=\"{:.6g}\" x2=\"{:.6g}\" y2=\"{:.6g}\"", style,
         from.x, from.y, to.x, to.y);
  end(tip, "line");
}

void Drawing::heat_line(Position from, Position to, double share, std::string_view tip) {
  line(from, to, fmt::format("l h{}", heat_step(share)), tip);
}

void Drawing::heat_row(double y, std::span<const Heat> row, std::string_view tip) {
  std::array<std::string, kHeatSteps> paths;
  for (const Heat& heat : row) {
    append(paths.at(static_cast<std::size_t>(heat_step(heat.share))), "M{:.5g} {:.5g}H{:.5g}",
           heat.from, y, heat.to);
  }
  svg_ += fmt::format("<g><title>{}</title>\n", escaped(tip));
  for (std::size_t step = 0; step < paths.size(); ++step) {
    if (paths.at(step).empty()) continue;
    append(svg_, "<path class=\"l h{}\" d=\"{}\"/>\n", step, paths.at(step));
  }
  svg_ += "</g>\n";
}

void Drawing::area(std::span<const Position> top, std::span<const Position> bottom,
                   std::string_view style, std::string_view tip) {
  std::string path;
  const auto add = [&](const Position& at) {
    append(path, "{}{:.5g} {:.5g}", path.empty() ? 'M' : 'L', at.x, at.y);
  };
  std::ranges::for_each(top, add);
  std::for_each(bottom.rbegin(), bottom.rend(), add);
  svg_ += fmt::format("<path class=\"{}\" d=\"{}Z\"", style, path);
  end(tip, "path");
}

void Drawing::dot(Position at, double radius, std::string_view style, std::string_view tip) {
  append(svg_, "<circle class=\"{}\" cx=\"{:.6g}\" cy=\"{:.6g}\" r=\"{:.4g}\"", style, at.x, at.y,
         radius);
  end(tip, "circle");
}

void Drawing::text(Position at, std::string_view text, std::string_view style) {
  append(svg_, "<text class=\"{}\" x=\"{:.6g}\" y=\"{:.6g}\">{}</text>\n", style, at.x, at.y,
         escaped(text));
}

std::string Drawing::finish() && {
  return std::move(svg_) + "</svg>\n";
}

int heat_step(double share) {
  return std::clamp(static_cast<int>(share * kHeatSteps), 0, kHeatSteps - 1);
}

std::string beside(const std::string& left, const std::string& right) {
  return fmt::format(
      "<div class=beside>\n<div class=wide>{}</div>\n<div class=wide>{}</div>\n"
      "</div>\n",
      left, right);
}

std::string section(std::string_view title, std::string_view note, const std::string& content) {
  const std::string said = note.empty() ? "" : fmt::format("<p>{}</p>\n", escaped(note));
  return fmt::format("<section>\n<h2>{}</h2>\n{}<div class=\"wide\">{}</div>\n</section>\n",
                     escaped(title), said, content);
}

}  // namespace kernbench::benches::page
