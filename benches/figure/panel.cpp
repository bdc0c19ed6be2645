#include "benches/figure/panel.h"

#include "benches/figure/number_text.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kPanelEdge = 16;  // of the page
constexpr double kTop = 70;        // below the heading
constexpr double kBetweenPanels = 16;
constexpr double kPanelWidth = (kPageWidth - 2 * kPanelEdge - kBetweenPanels) / 2;
constexpr double kPanelHeight = 392;
constexpr double kKeyLine = 22;

}  // namespace

std::string to_text(Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return "unlimited";
  return rounded_text(static_cast<double>(bandwidth.per_second) / 1e9) + " GB/s";
}

std::string to_text(Time time) {
  return rounded_text(to_ns(time)) + " ns";
}

std::string to_text(const LinkSpec& link) {
  return to_text(link.bandwidth) + ", " + to_text(link.latency);
}

std::array<Panel, 4> Panel::two_by_two() {
  const double right = kPanelEdge + kPanelWidth + kBetweenPanels;
  const double below = kTop + kPanelHeight + kBetweenPanels;
  return {Panel({kPanelEdge, kTop, kPanelWidth, kPanelHeight}),
          Panel({right, kTop, kPanelWidth, kPanelHeight}),
          Panel({kPanelEdge, below, kPanelWidth, kPanelHeight}),
          Panel({right, below, kPanelWidth, kPanelHeight})};
}

double Panel::page_height() {
  return kTop + 2 * kPanelHeight + kBetweenPanels + kPanelEdge;
}

Box Panel::inside(int keys) const {
  constexpr double kMargin = 16;
  constexpr double kTitle = 44;
  const double key = keys * kKeyLine + (keys > 0 ? 8 : 0);
  return {frame_.x + kMargin, frame_.y + kTitle, frame_.w - 2 * kMargin,
          frame_.h - kTitle - kMargin - key};
}

void Panel::draw_frame(SvgWriter& svg, std::string_view colour, std::string_view title) const {
  svg.rectangle(frame_, kPaper, {.colour = colour, .width = 2.5}, 8);
  svg.text({frame_.x + 14, frame_.y + 27}, title, {.size = kTextSize, .bold = true});
}

void Panel::draw_key(SvgWriter& svg, int row, const Stroke& sample, std::string_view text) const {
  const Box area = inside(row + 1);
  // Rows are counted from below, so the last row has the same place for any number of rows.
  const double y = area.bottom() + 8 + kKeyLine / 2;
  svg.line({frame_.x + 18, y}, {frame_.x + 50, y}, sample);
  svg.text({frame_.x + 60, baseline(y, kSmallSize)}, text, {.size = kSmallSize});
}

}  // namespace kernbench::benches::figure
