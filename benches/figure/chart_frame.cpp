#include "benches/figure/chart_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "benches/figure/number_text.h"
#include "benches/figure/text.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kPlotHeight = 380;
constexpr double kPageEdge = 16;     // of the page
constexpr double kRightMargin = 28;  // without labels
constexpr double kTickLength = 6;

double widest_label(const AxisRange& range) {
  double widest = 0;
  for (const Tick& tick : range.ticks) {
    widest = std::max(widest, text_width(tick.label, kTextSize));
  }
  return widest;
}

std::string range_text(const AxisCut& cut) {
  return plain_text(cut.from) + " to " + plain_text(cut.to);
}

// The note, with an explanation of a broken axis if there is one.
std::string note_of(const FrameContent& content, const AxisRange& y) {
  if (!y.cut) return content.note;
  return content.note + (content.note.empty() ? "" : " ") +
         fmt::format("The y axis leaves out {}; its scale is the same below and above.",
                     range_text(*y.cut));
}

double sample_width(LegendEntry::Sample sample) {
  return sample == LegendEntry::Sample::line ? 44 : sample == LegendEntry::Sample::bar ? 26 : 14;
}

void draw_sample(SvgWriter& svg, Position at, const LegendEntry& entry) {
  const double width = sample_width(entry.sample);
  if (entry.sample == LegendEntry::Sample::bar) {
    svg.rectangle({at.x, at.y - 8, width, 16}, entry.look.colour, {});
    return;
  }
  if (entry.sample == LegendEntry::Sample::line) {
    svg.line(at, {at.x + width, at.y},
             {.colour = entry.look.colour, .width = kThick, .dashes = entry.look.dashes});
  }
  draw_marker(svg, {at.x + width / 2, at.y}, entry.look);
}

}  // namespace

double ChartFrame::place_lines(const std::string& text, double top, const TextStyle& style,
                               double x) {
  if (text.empty()) return top;
  for (const std::string& line :
       wrapped(text, style.size, kPageWidth - x - kPageEdge, style.bold)) {
    top += style.size * kLineHeight;
    texts_.push_back({{x, top - style.size * 0.3}, line, style});
  }
  return top;
}

double ChartFrame::place_legend(const std::vector<LegendEntry>& entries, double top) {
  if (entries.empty()) return top;
  Position at{plot_.x, top + 8 + kTextLine / 2};
  for (const LegendEntry& entry : entries) {
    const double width = sample_width(entry.sample) + 8 + text_width(entry.name, kTextSize);
    if (at.x > plot_.x && at.x + width > kPageWidth - kPageEdge)
      at = {plot_.x, at.y + kTextLine + 4};
    legend_.push_back({at, entry});
    at.x += width + 28;
  }
  return at.y + kTextLine / 2;
}

ChartFrame::ChartFrame(const FrameContent& content, const AxisRange& y) : y_(y, 1, 0) {
  const double margin = margin_width(content.margin_texts);
  plot_.x = kPageEdge + kTextLine + 8 + widest_label(y) + kTickLength + 4;
  plot_.w = kPageWidth - plot_.x - std::max(margin, kRightMargin);

  double top = place_lines(content.title, 12, {.size = kTitleSize, .bold = true}, kPageEdge);
  top = place_lines(content.subtitle, top + 4, {.size = kTextSize, .colour = kFaintInk}, kPageEdge);
  plot_.y = place_legend(content.legend, top) + content.value_label_height + 8;
  plot_.h = kPlotHeight;
  y_ = AxisMap(y, plot_.bottom(), plot_.y);

  const TextStyle axis_title{.size = kTextSize, .anchor = Anchor::middle};
  TextStyle turned = axis_title;
  turned.turn = -90;
  texts_.push_back({{kPageEdge + kTextLine * 0.7, plot_.centre().y}, content.y_title, turned});
  double bottom = plot_.bottom() + kTickLength + content.x_labels_height;
  if (!content.x_title.empty()) {
    bottom += kTextLine + 4;
    texts_.push_back({{plot_.centre().x, bottom - 5}, content.x_title, axis_title});
  }
  bottom = place_lines(note_of(content, y), bottom + 8, {.size = kNoteSize, .colour = kFaintInk},
                       kPageEdge);
  page_height_ = std::ceil(bottom + 12);
}

void ChartFrame::draw(SvgWriter& svg) const {
  for (const PlacedText& placed : texts_) svg.text(placed.at, placed.text, placed.style);
  for (const PlacedEntry& placed : legend_) {
    draw_sample(svg, placed.at, placed.entry);
    const double x = placed.at.x + sample_width(placed.entry.sample) + 8;
    svg.text({x, baseline(placed.at.y, kTextSize)}, placed.entry.name, {.size = kTextSize});
  }
  draw_y_axis(svg);
}

void ChartFrame::draw_y_axis(SvgWriter& svg) const {
  std::vector<double> centres;
  std::vector<double> heights;
  for (const Tick& tick : y_.range().ticks) {
    const double y = y_(tick.value);
    svg.line({plot_.x, y}, {plot_.right(), y},
             {.colour = tick.label.empty() ? kMinorGridColour : kGridColour});
    centres.push_back(-y);  // ascending
    heights.push_back(tick.label.empty() ? 0 : kTextSize);
  }
  svg.line({plot_.x, plot_.y - 6}, {plot_.x, plot_.bottom()}, kAxisStroke);
  const std::vector<bool> fits = labels_that_fit(centres, heights, 2);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const std::string& label = y_.range().ticks[i].label;
    if (!fits[i] || label.empty()) continue;
    const Position tick{plot_.x - kTickLength, -centres[i]};
    svg.line(tick, {plot_.x, tick.y}, kAxisStroke);
    svg.text({tick.x - 4, baseline(tick.y, kTextSize)}, label,
             {.size = kTextSize, .anchor = Anchor::end});
  }
}

void ChartFrame::say_no_data(SvgWriter& svg) const {
  svg.text(plot_.centre(), "no data",
           {.size = kTitleSize, .colour = kFaintInk, .anchor = Anchor::middle});
}

void ChartFrame::clear_gap(SvgWriter& svg) const {
  if (!y_.range().cut) return;
  const Box gap = gap_of_cut();
  svg.rectangle({gap.x, gap.y + 1, gap.w, gap.h - 2}, kPaper, {});
}

Box ChartFrame::gap_of_cut() const {
  const AxisCut& cut = *y_.range().cut;
  return {plot_.x, y_(cut.to), plot_.w, y_(cut.from) - y_(cut.to)};
}

Box ChartFrame::draw_cut(SvgWriter& svg, std::vector<Stretch> crossings,
                         std::vector<Stretch> taken) const {
  if (!y_.range().cut) return {};
  crossings.push_back({plot_.x - 9, plot_.x + 9});
  return draw_cut_marks(svg, gap_of_cut(), std::move(crossings), std::move(taken),
                        range_text(*y_.range().cut) + " left out");
}

void ChartFrame::draw_reference(SvgWriter& svg, const ReferenceLine& reference,
                                std::vector<MarginLabel>& labels) const {
  if (!can_show(y_.range().scale, reference.y)) return;
  const double y = y_(reference.y);
  if (y < plot_.y - 0.5 || y > plot_.bottom() + 0.5) return;
  svg.begin_group(reference.name);
  svg.line({plot_.x, y}, {plot_.right(), y}, kBoundStroke);
  svg.end_group();
  labels.push_back({reference.name, y, {.colour = kLeaderColour}});
}

std::vector<bool> labels_that_fit(const std::vector<double>& centres,
                                  const std::vector<double>& widths, double gap) {
  std::vector<bool> fits(centres.size(), false);
  std::vector<std::size_t> labels;
  for (std::size_t i = 0; i < centres.size(); ++i) {
    if (widths[i] > 0) labels.push_back(i);
  }
  if (labels.empty()) return fits;
  const auto begin = [&](std::size_t i) { return centres[i] - widths[i] / 2; };
  const auto end = [&](std::size_t i) { return centres[i] + widths[i] / 2; };
  const std::size_t last = labels.back();
  double free = begin(labels.front());
  for (const std::size_t i : labels) {
    const bool clears_last = i == labels.front() || end(i) + gap <= begin(last);
    fits[i] = begin(i) >= free && (i == last || clears_last);
    if (fits[i]) free = end(i) + gap;
  }
  return fits;
}

}  // namespace kernbench::benches::figure
