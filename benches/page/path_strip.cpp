#include "benches/page/path_strip.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "benches/page/drawing.h"
#include "benches/page/time_axis.h"
#include "sim_engine/core/cause_log.h"

namespace kernbench::benches::page {

namespace {

using sim::Cause;
using Edge = sim::CauseLog::Edge;

constexpr double kStripWidth = 1000;
constexpr double kStripTop = 18;
constexpr std::int64_t kMostParts = 800;
constexpr std::size_t kMostPlaces = 20;

// The path with times of the axis, on which the edges of one part follow those of the one before
// it.
std::vector<Edge> place_on(const TimeAxis& axis, std::vector<Edge> edges) {
  for (Edge& edge : edges) {
    edge.start = axis.timed_before(edge.start);
    edge.end = axis.timed_before(edge.end);
  }
  return edges;
}

// Cuts the path into pieces of at least this length; each has the cause that takes most of it.
std::vector<Edge> cut_path(const std::vector<Edge>& edges, Time least) {
  std::vector<Edge> parts;
  std::array<Time, sim::kCauseCount> times{};
  Time start{0};
  for (const Edge& edge : edges) {
    if (times == std::array<Time, sim::kCauseCount>{}) start = edge.start;
    times.at(static_cast<std::size_t>(edge.why)) += edge.length();
    if (edge.end - start < least && &edge != &edges.back()) continue;
    const auto most = std::ranges::max_element(times) - times.begin();
    parts.push_back({static_cast<Cause>(most), 0, start, edge.end});
    times = {};
  }
  return parts;
}

std::string write_key(const runtime::CriticalPath& path) {
  std::string text = "<p class=key>";
  for (std::size_t i = 0; i < sim::kCauseCount; ++i) {
    if (path.by_cause.at(i) == Time{0}) continue;
    text += fmt::format("<span><i class=c{}></i>{}</span>", i, name_of(static_cast<Cause>(i)));
  }
  return text + "</p>\n";
}

std::string write_rows(const runtime::Profile& profile) {
  std::string rows =
      "<table><tr><th>cause<th>where<th class=n>times<th class=n>us<th class=n>share</tr>\n";
  const auto& all = profile.path.rows;
  for (std::size_t i = 0; i < std::min(kMostPlaces, all.size()); ++i) {
    const double share =
        static_cast<double>(all[i].total.count()) / static_cast<double>(profile.duration().count());
    rows +=
        fmt::format("<tr><td>{}<td>{}<td class=n>{}<td class=n>{:.3f}<td class=n>{:.1f} %</tr>\n",
                    name_of(all[i].cause), all[i].places_text(), all[i].count,
                    to_ns(all[i].total) / 1e3, 100 * share);
  }
  return rows + "</table>\n";
}

}  // namespace

std::string path_strip(const runtime::Profile& profile) {
  if (profile.path.edges.empty()) return "";
  const TimeAxis axis(profile.parts, 0, kStripWidth);
  Drawing drawing(kStripWidth + 10, kStripTop + 46, "The critical path over time");
  axis.draw_ticks(drawing, 14);
  const std::vector<Edge> edges = place_on(axis, profile.path.edges);
  for (const Edge& part : cut_path(edges, profile.duration() / kMostParts)) {
    const double x = axis.x_of(part.start);
    drawing.box({x, kStripTop + 14, axis.x_of(part.end) - x, 30},
                fmt::format("c{}", static_cast<int>(part.why)),
                fmt::format("{}, {:.3f} us", name_of(part.why), to_ns(part.length()) / 1e3));
  }
  axis.draw_parts(drawing, kStripTop, kStripTop + 46);
  return write_key(profile.path) + std::move(drawing).finish() + write_rows(profile);
}

}  // namespace kernbench::benches::page
