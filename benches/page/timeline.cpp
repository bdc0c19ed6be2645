#include "benches/page/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "benches/page/drawing.h"
#include "benches/page/time_axis.h"

namespace kernbench::benches::page {

namespace {

using Kind = runtime::RunSpan::Kind;

constexpr std::size_t kMostBars = 1200;  // of the chart, so that the page stays small
constexpr double kLeft = 130;
constexpr double kWidth = 870;
constexpr double kRight = 10;  // for half of the last tick's text
constexpr double kRow = 15;
constexpr double kTicks = 14;
constexpr double kHead = 32;  // ticks, and the names of parts

struct Bar {
  Time start{0};
  Time end{0};
  std::string style;
  std::string tip;
  std::size_t count = 1;  // of calls
};
using Lane = std::vector<Bar>;
using LaneKey = std::pair<int, std::string>;  // rank and name

bool is_drawn(const runtime::RunSpan& span) {
  return span.rank >= 0 && span.rank < static_cast<int>(kMostDrawnRanks) &&
         span.kind != Kind::collective_kernel && span.kind != Kind::mark &&
         span.kind != Kind::scope;
}

std::string lane_name(const runtime::RunSpan& span) {
  if (span.kind == Kind::kernel) return "kernels";
  if (span.kind == Kind::message) return "messages";
  if (span.kind == Kind::wait) return "waits";
  if (span.kind == Kind::action) return "pipeline";
  return fmt::format("group {}", span.group);
}

// The style of the page.  Actions differ by what they compute: "0F1", "0B1", "0I1", "0W1".
std::string style_of(const runtime::RunSpan& span) {
  if (span.kind != Kind::action) return std::string(name_of(span.kind));
  return fmt::format("action_{}", span.name.at(span.name.find_first_of("FBIW")));
}

std::string write_tip(const runtime::RunSpan& span, Time end) {
  const std::string part = span.part.empty() ? "" : ", " + span.part;
  std::string tip = fmt::format("{}{}, {:.3f} us", span.name, part, to_ns(end - span.start) / 1e3);
  if (!span.algorithm.empty()) tip += ", " + span.algorithm;
  if (span.bytes > 0) tip += fmt::format(", {} B", span.bytes);
  return span.where.empty() ? tip : tip + ", " + span.where;
}

// Bars have times of the axis.
std::map<LaneKey, Lane> collect_lanes(const runtime::RunLog& log, const TimeAxis& axis, Time end) {
  std::map<LaneKey, Lane> lanes;
  for (const runtime::RunSpan& span : log.spans()) {
    const Time until = std::min(span.end, end);
    const Time from = axis.timed_before(span.start);
    const Time to = axis.timed_before(until);
    if (!is_drawn(span) || to <= from) continue;
    lanes[{span.rank, lane_name(span)}].push_back(
        {from, to, style_of(span), write_tip(span, until)});
  }
  for (auto& [key, lane] : lanes) std::ranges::stable_sort(lane, {}, &Bar::start);
  return lanes;
}

// Joins bars that are shorter than `least`, and closer to each other than that.
Lane joined(const Lane& lane, Time least) {
  Lane result;
  for (const Bar& bar : lane) {
    Bar* const last = result.empty() ? nullptr : &result.back();
    const bool is_short = bar.end - bar.start < least;
    if (last != nullptr && is_short && bar.start - last->end < least &&
        (last->count > 1 || last->end - last->start < least)) {
      last->end = std::max(last->end, bar.end);
      last->tip = fmt::format("{} calls", ++last->count);
    } else {
      result.push_back(bar);
    }
  }
  return result;
}

void join_all(std::map<LaneKey, Lane>& lanes, Time end) {
  const auto bar_count = [&] {
    std::size_t count = 0;
    for (const auto& [key, lane] : lanes) count += lane.size();
    return count;
  };
  for (Time least = end / 2000 + Time{1}; bar_count() > kMostBars && least < end; least *= 2) {
    for (auto& [key, lane] : lanes) lane = joined(lane, least);
  }
}

}  // namespace

std::string timeline(const runtime::RunLog& log, std::span<const runtime::TimedPart> parts) {
  const TimeAxis axis(parts, kLeft, kWidth);
  std::map<LaneKey, Lane> lanes = collect_lanes(log, axis, parts.back().to);
  if (lanes.empty()) return "<p>No rank has called anything.</p>\n";
  join_all(lanes, axis.length());
  const double bottom = kHead + kRow * static_cast<double>(lanes.size());
  Drawing drawing(kLeft + kWidth + kRight, bottom + 2, "What each rank did over time");
  axis.draw_ticks(drawing, kTicks);
  axis.draw_parts(drawing, kTicks + 4, bottom);
  double y = kHead;
  for (const auto& [key, lane] : lanes) {
    drawing.text({0, y + 11}, fmt::format("rank {} {}", key.first, key.second));
    for (const Bar& bar : lane) {
      const double x = axis.x_of(bar.start);
      drawing.box({x, y + 2, axis.x_of(bar.end) - x, kRow - 4}, bar.style, bar.tip);
    }
    y += kRow;
  }
  return std::move(drawing).finish();
}

}  // namespace kernbench::benches::page
