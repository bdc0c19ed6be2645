#include "benches/figure/margin_labels.h"

#include <algorithm>

#include "benches/figure/style.h"
#include "benches/figure/text.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::figure {

namespace {

constexpr double kWidestLabel = 180;
constexpr double kLeader = 22;
constexpr double kLabelEdge = 12;  // to the edge of the page

std::vector<std::string> lines_of(const std::string& text) {
  return balanced(text, kTextSize, kWidestLabel);
}

// Intervals that touch and move as one.
struct Cluster {
  double top = 0;
  double height = 0;
  double wish = 0;  // sum over its members of the top that each would give it
  int count = 0;
};

void keep_inside(Cluster& cluster, double top, double bottom) {
  cluster.top = cluster.wish / cluster.count;
  cluster.top = std::max(top, std::min(cluster.top, bottom - cluster.height));
}

void draw(SvgWriter& svg, const MarginLabel& label, double centre, const Box& plot) {
  const std::vector<std::string> lines = lines_of(label.text);
  const double x = plot.right() + kLeader;
  svg.line({plot.right(), label.y}, {x - 4, centre}, label.leader);
  double y = centre - kTextLine * static_cast<double>(lines.size() - 1) / 2;
  for (const std::string& line : lines) {
    svg.text({x, baseline(y, kTextSize)}, line, {.size = kTextSize, .colour = kInk});
    y += kTextLine;
  }
}

}  // namespace

double margin_width(std::span<const std::string> texts) {
  double widest = 0;
  for (const std::string& text : texts) {
    for (const std::string& line : lines_of(text)) {
      widest = std::max(widest, text_width(line, kTextSize));
    }
  }
  return widest > 0 ? kLeader + widest + kLabelEdge : 0;
}

void draw_margin_labels(SvgWriter& svg, std::vector<MarginLabel> labels, const Box& plot) {
  std::ranges::stable_sort(labels, {}, &MarginLabel::y);
  std::vector<double> wishes;
  std::vector<double> heights;
  for (const MarginLabel& label : labels) {
    wishes.push_back(label.y);
    heights.push_back(kTextLine * static_cast<double>(lines_of(label.text).size()) + 3);
  }
  const std::vector<double> centres =
      moved_apart(wishes, heights, plot.y - kTextLine, plot.bottom() + kTextLine);
  for (std::size_t i = 0; i < labels.size(); ++i) draw(svg, labels[i], centres[i], plot);
}

std::vector<double> moved_apart(std::span<const double> centres, std::span<const double> heights,
                                double top, double bottom) {
  KB_CHECK(centres.size() == heights.size(), "{} centres, {} heights", centres.size(),
           heights.size());
  std::vector<Cluster> clusters;
  for (std::size_t i = 0; i < centres.size(); ++i) {
    Cluster added{.height = heights[i], .wish = centres[i] - heights[i] / 2, .count = 1};
    keep_inside(added, top, bottom);
    while (!clusters.empty() && added.top < clusters.back().top + clusters.back().height) {
      Cluster& before = clusters.back();
      before.wish += added.wish - added.count * before.height;
      before.height += added.height;
      before.count += added.count;
      added = before;
      keep_inside(added, top, bottom);
      clusters.pop_back();
    }
    clusters.push_back(added);
  }
  std::vector<double> result;
  for (const Cluster& cluster : clusters) {
    double y = cluster.top;
    for (int i = 0; i < cluster.count; ++i) {
      const double height = heights[result.size()];
      result.push_back(y + height / 2);
      y += height;
    }
  }
  return result;
}

}  // namespace kernbench::benches::figure
