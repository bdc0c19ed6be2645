#include "benches/evaluation/ccl_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/inputs.h"
#include "benches/figure/bar_chart.h"
#include "benches/figure/line_chart.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

namespace {

using figure::Point;
using figure::Series;

double microseconds_in(const Row& row, std::string_view column) {
  return number_in(row, column) / 1e3;
}

// The curve of `value` over n_elem, from the rows with `text` in `column`.
std::vector<Point> curve(std::span<const Row> rows, std::string_view column, std::string_view text,
                         std::string_view value) {
  std::vector<Point> points;
  for (const Row& row : rows) {
    if (text_in(row, column) != text) continue;
    points.push_back({number_in(row, "n_elem"), microseconds_in(row, value)});
  }
  return points;
}

figure::Axis size_axis() {
  return {.title = "elements per cube, f16",
          .scale = figure::Scale::log2,
          .labels = figure::Labels::binary};
}

// "6 SIPs in a ring, ... ; queues in tcm"
std::string what_was_measured(const Row& row) {
  return fmt::format("{}; {}, queues in {}", describe(load_topology(text_in(row, "topology"))),
                     text_in(row, "algorithm"), text_in(row, "buffer_kind"));
}

const Row& row_of(std::span<const Row> rows, std::string_view topology) {
  const auto found = std::ranges::find_if(
      rows, [&](const Row& row) { return text_in(row, "topology") == topology; });
  KB_CHECK(found != rows.end(), "no row of '{}'", topology);
  return *found;
}

}  // namespace

std::string latency_figure(std::span<const Row> latency, std::string_view topology) {
  return figure::to_svg(figure::LineChart{
      .title = fmt::format("all_reduce on {}: latency over size", topology),
      .subtitle = what_was_measured(row_of(latency, topology)),
      .x = size_axis(),
      .y = {.title = "latency of the slowest PE (µs)"},
      .series = {{.name = std::string(topology),
                  .points = curve(latency, "topology", topology, "crit_ns")},
                 {.name = "lower bound",
                  .points = curve(latency, "topology", topology, "lower_bound_ns"),
                  .kind = figure::SeriesKind::bound}},
      .note = "Lower bound: what the links between SIPs allow any algorithm."});
}

std::string buffer_kind_figure(std::span<const Row> buffer_kinds) {
  std::vector<Series> series;
  for (const sim::BufferKind kind : sim::kBufferKinds) {
    series.push_back({.name = std::string(name_of(kind)),
                      .points = curve(buffer_kinds, "buffer_kind", name_of(kind), "crit_ns")});
  }
  series.push_back({.name = "lower bound",
                    .points = curve(buffer_kinds, "buffer_kind", "tcm", "lower_bound_ns"),
                    .kind = figure::SeriesKind::bound});
  const Row& first = buffer_kinds.front();
  return figure::to_svg(figure::LineChart{
      .title = fmt::format("all_reduce on {}: where the queues lie", text_in(first, "topology")),
      .subtitle = fmt::format("{}; {}", describe(load_topology(text_in(first, "topology"))),
                              text_in(first, "algorithm")),
      .x = size_axis(),
      .y = {.title = "latency of the slowest PE (µs)"},
      .series = std::move(series)});
}

std::string fsim_figure(std::span<const Row> latency, const FsimReference& reference) {
  std::vector<std::string> groups;
  figure::BarSeries bars{.name = "model"};
  double highest = 0;
  for (const std::string_view topology : kEvaluatedTopologies) {
    const Row* largest = &row_of(latency, topology);
    for (const Row& row : latency) {
      if (text_in(row, "topology") == topology) largest = &row;
    }
    groups.emplace_back(topology);
    bars.values.push_back(microseconds_in(*largest, "crit_ns"));
    highest = std::max(highest, bars.values.back());
  }
  const double fsim = to_ns(reference.latency) / 1e3;
  groups.push_back(
      fmt::format("FSIM, {} device{}", reference.devices, reference.devices == 1 ? "" : "s"));
  bars.values.push_back(fsim);
  const Row& last = latency.back();
  return figure::to_svg(figure::BarChart{
      .title = "all_reduce: the model beside FSIM",
      .subtitle =
          fmt::format("model: {} per cube on 6 devices, {}, queues in {}",
                      figure::label_of(figure::Labels::bytes, 2 * number_in(last, "n_elem")),
                      text_in(last, "algorithm"), text_in(last, "buffer_kind")),
      .y = {.title = "latency (µs)", .cut = figure::cut_between(highest, fsim)},
      .groups = std::move(groups),
      .series = {std::move(bars)},
      .reference_groups = 1,
      .note = "FSIM: a single figure of another simulator, for one device; what it reduced was not "
              "recorded."});
}

}  // namespace kernbench::benches
