#include "benches/pipeline/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/bench/row_cells.h"
#include "benches/figure/style.h"
#include "benches/figure/svg.h"

namespace kernbench::benches::pipeline {

namespace {

using figure::ActionStyle;
using figure::Anchor;
using figure::kActionStyles;
using figure::kFaintInk;
using figure::kPageWidth;
using figure::kSmallSize;
using figure::kTextSize;
using figure::SvgWriter;

constexpr double kMargin = 20;
constexpr double kLeft = 80;  // of the lanes, beside "rank 15"
constexpr double kLane = 18;
constexpr double kTitle = 34;  // of a point
constexpr double kHead = 96;
constexpr double kLetter = 8;  // of a number in a box

struct Point {
  const Row* step = nullptr;
  std::vector<const Row*> actions;
  int ranks = 1;
};

bool is_of_point(const Row& row, const Row& step) {
  const auto same = [&](std::string_view column) {
    return number_in(row, column) == number_in(step, column);
  };
  return text_in(row, "schedule") == text_in(step, "schedule") && same("stages") &&
         same("microbatches") && same("ranks");
}

std::vector<Point> collect_points(std::span<const Row> rows) {
  std::vector<Point> points;
  for (const Row& step : rows) {
    if (text_in(step, "table") != "step") continue;
    Point point{.step = &step, .actions = {}, .ranks = static_cast<int>(number_in(step, "ranks"))};
    for (const Row& row : rows) {
      if (text_in(row, "table") == "action" && is_of_point(row, step))
        point.actions.push_back(&row);
    }
    points.push_back(std::move(point));
  }
  return points;
}

void draw_legend(SvgWriter& svg) {
  double x = kMargin;
  for (const ActionStyle& kind : kActionStyles) {
    svg.rectangle({x, kHead - 30, 14, 14}, kind.colour, {});
    svg.text({x + 20, kHead - 18}, kind.name, {.size = kSmallSize});
    x += 50 + 7.2 * static_cast<double>(kind.name.size());
  }
}

// `scale` is in pixels of a nanosecond.
void draw_action(SvgWriter& svg, const Row& row, double top, double scale) {
  const std::string& action = text_in(row, "action");
  const std::size_t at = action.find_first_of("FBIW");
  const auto* const kind = std::ranges::find(kActionStyles, action.at(at), &ActionStyle::letter);
  const double begin = number_in(row, "begin_ns");
  const figure::Box box{kLeft + begin * scale, top + kLane * number_in(row, "rank") + 1,
                        (number_in(row, "end_ns") - begin) * scale, kLane - 2};
  svg.rectangle(box, kind->colour, {.colour = figure::kPaper, .width = 0.7});
  const std::string microbatch = action.substr(at + 1);
  if (box.w < kLetter * static_cast<double>(microbatch.size())) return;
  svg.text({box.centre().x, figure::baseline(box.centre().y, kSmallSize - 2)}, microbatch,
           {.size = kSmallSize - 2, .colour = figure::kPaper, .anchor = Anchor::middle});
}

void draw_point(SvgWriter& svg, const Point& point, double top, double scale) {
  svg.text(
      {kMargin, top + 22},
      fmt::format("{}, {} stages, {} micro-batches: {:.1f} us", text_in(*point.step, "schedule"),
                  number_in(*point.step, "stages"), number_in(*point.step, "microbatches"),
                  number_in(*point.step, "step_ns") / 1e3),
      {.size = kTextSize, .bold = true});
  for (int rank = 0; rank < point.ranks; ++rank) {
    const double y = top + kTitle + kLane * (rank + 0.5);
    svg.text({kMargin, figure::baseline(y, kSmallSize)}, fmt::format("rank {}", rank),
             {.size = kSmallSize, .colour = kFaintInk});
  }
  for (const Row* action : point.actions) draw_action(svg, *action, top + kTitle, scale);
}

}  // namespace

std::string draw_gantt(std::span<const Row> rows, const std::string& subtitle) {
  const std::vector<Point> points = collect_points(rows);
  double longest = 1;
  double height = kHead + kMargin;
  for (const Point& point : points) {
    longest = std::max(longest, number_in(*point.step, "step_ns"));
    height += kTitle + kLane * point.ranks;
  }
  const double scale = (kPageWidth - kLeft - kMargin) / longest;
  SvgWriter svg(kPageWidth, height, "Pipeline schedules",
                "When each rank computes which micro-batch, forward and backward");
  svg.text({kMargin, 28}, "Pipeline schedules", {.size = figure::kTitleSize, .bold = true});
  svg.text({kMargin, 50}, subtitle, {.size = kSmallSize, .colour = kFaintInk});
  draw_legend(svg);
  double top = kHead;
  for (const Point& point : points) {
    draw_point(svg, point, top, scale);
    top += kTitle + kLane * point.ranks;
  }
  return std::move(svg).finish();
}

}  // namespace kernbench::benches::pipeline
