#include "benches/evaluation/gemm_figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "benches/bench/cell.h"
#include "benches/bench/inputs.h"
#include "benches/figure/bar_chart.h"
#include "benches/figure/line_chart.h"

namespace kernbench::benches {

namespace {

using figure::Point;
using figure::Scale;
using figure::Series;

// "one PE", "a cube of 8", ...
std::string name_for_people(GemmOn on, const Topology& topology) {
  const int pes = topology.pe_count();
  switch (on) {
    case GemmOn::pe:
      return "1 PE";
    case GemmOn::cube:
      return fmt::format("cube, {} PEs", pes);
    case GemmOn::sip:
      return fmt::format("SIP, {} PEs", pes * topology.cube_count());
    case GemmOn::all:
      break;
  }
  return fmt::format("all, {} PEs", pes * topology.cube_count() * topology.system.sip_count);
}

// A series for each placement that has rows: a point of each row for which point_of() has one.
template <class PointOf>
std::vector<Series> series_by_placement(std::span<const Row> rows, const Topology& topology,
                                        figure::SeriesKind kind, const PointOf& point_of) {
  std::vector<Series> series;
  for (std::size_t i = 0; i < kGemmOn.size(); ++i) {
    Series one{
        .name = name_for_people(kGemmOn[i], topology), .kind = kind, .look = static_cast<int>(i)};
    for (const Row& row : rows) {
      if (text_in(row, "on") != name_of(kGemmOn[i])) continue;
      if (const std::optional<Point> point = point_of(row)) one.points.push_back(*point);
    }
    if (!one.points.empty()) series.push_back(std::move(one));
  }
  return series;
}

bool has_number(const Row& row, std::string_view column) {
  const Cell* cell = row.find(column);
  return cell != nullptr && !std::holds_alternative<std::nullptr_t>(*cell);
}

double percent_in(const Row& row, std::string_view column) {
  return has_number(row, column) ? 100 * number_in(row, column)
                                 : std::numeric_limits<double>::quiet_NaN();
}

std::string array_text(const Topology& topology) {
  const GemmSpec& array = topology.pe.gemm;
  return fmt::format("{}; {} x {} arrays, {}", describe(topology), array.rows, array.columns,
                     name_of(array.dataflow));
}

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = 0;

  void add(double value) {
    if (!(value > 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

// The roofline over this range: HBM's rate below the ridge, the array's rate above it.
std::vector<Point> roof(const Range& x, double peak_tflops, double hbm_gbs) {
  const double ridge = peak_tflops * 1e3 / hbm_gbs;
  const auto at = [&](double intensity) {
    return Point{intensity, std::min(peak_tflops, intensity * hbm_gbs / 1e3)};
  };
  std::vector<Point> points = {at(std::min(x.low, ridge / 2)), at(ridge),
                               at(std::max(x.high, ridge * 2))};
  return points;
}

}  // namespace

std::string agreement_figure(std::span<const Row> rows, const Topology& topology) {
  Range range;
  const auto point_of = [&](const Row& row) {
    const Point point{number_in(row, "theoretical_ns") / 1e3, number_in(row, "time_ns") / 1e3};
    range.add(point.x);
    range.add(point.y);
    return std::optional(point);
  };
  std::vector<Series> series =
      series_by_placement(rows, topology, figure::SeriesKind::points, point_of);
  const auto equal = std::ranges::count_if(rows, [](const Row& row) {
    return number_in(row, "theoretical_ns") == number_in(row, "time_ns");
  });
  if (range.high > 0) {
    series.push_back({.name = "equal",
                      .points = {{range.low, range.low}, {range.high, range.high}},
                      .kind = figure::SeriesKind::bound});
  }
  return figure::to_svg(figure::LineChart{
      .title = "GEMM: measured against theoretical time",
      .subtitle = array_text(topology) + "; f16",
      .x = {.title = "theoretical time of the slowest PE (µs)", .scale = Scale::log10},
      .y = {.title = "measured time of the slowest PE (µs)", .scale = Scale::log10},
      .series = std::move(series),
      .note = fmt::format("{} of {} points are equal to the picosecond.  Theory: the recurrence of "
                          "ADR-0044.",
                          equal, rows.size())});
}

std::string square_utilization_figure(std::span<const Row> rows, const Topology& topology) {
  const auto point_of = [](const Row& row) -> std::optional<Point> {
    if (text_in(row, "family") != name_of(GemmFamily::square)) return {};
    return Point{number_in(row, "m"), percent_in(row, "utilization")};
  };
  return figure::to_svg(figure::LineChart{
      .title = "GEMM: utilization of the arrays over size",
      .subtitle = array_text(topology) + "; f16, m = n = k",
      .x = {.title = "side of the square matrices (elements)",
            .scale = Scale::log2,
            .labels = figure::Labels::binary},
      .y = {.title = "utilization (% of peak)", .min = 0, .max = 100},
      .series = series_by_placement(rows, topology, figure::SeriesKind::line, point_of),
      .note = "Of the peak of all PEs of the placement, the launch not counted."});
}

std::string projection_figure(std::span<const Row> rows, const Topology& topology,
                              std::int64_t tokens) {
  const std::string suffix = fmt::format(", {} tokens", tokens);
  const auto is_wanted = [&](const Row& row) {
    return text_in(row, "family") == name_of(GemmFamily::projection) &&
           text_in(row, "shape").ends_with(suffix);
  };
  std::vector<std::string> groups;
  std::vector<figure::BarSeries> series;
  for (std::size_t i = 0; i < kGemmOn.size(); ++i) {
    figure::BarSeries bars{.name = name_for_people(kGemmOn[i], topology),
                           .look = static_cast<int>(i)};
    std::vector<std::string> names;
    for (const Row& row : rows) {
      if (!is_wanted(row) || text_in(row, "on") != name_of(kGemmOn[i])) continue;
      const std::string& shape = text_in(row, "shape");
      names.push_back(shape.substr(0, shape.size() - suffix.size()));
      bars.values.push_back(percent_in(row, "utilization"));
    }
    if (names.empty()) continue;
    groups = names;
    series.push_back(std::move(bars));
  }
  return figure::to_svg(figure::BarChart{
      .title = fmt::format("Projections of a transformer, {} tokens: utilization", tokens),
      .subtitle = array_text(topology) + "; f16",
      .x_title = "hidden size and projection",
      .y = {.title = "utilization (% of peak)"},
      .groups = std::move(groups),
      .series = std::move(series)});
}

std::string roofline_figure(std::span<const Row> rows, const Topology& topology) {
  Range range;
  double peak = 0;
  std::set<double> hbm_gbs;  // of each PE: less where those that work share slices
  const auto point_of = [&](const Row& row) -> std::optional<Point> {
    if (!has_number(row, "peak_tflops") || !has_number(row, "hbm_gbs")) return {};
    const double pes = number_in(row, "pes");
    peak = number_in(row, "peak_tflops") / pes;
    hbm_gbs.insert(number_in(row, "hbm_gbs") / pes);
    const double flops = 2 * number_in(row, "m") * number_in(row, "n") * number_in(row, "k");
    const Point point{flops / number_in(row, "hbm_bytes"), number_in(row, "tflops") / pes};
    range.add(point.x);
    return point;
  };
  std::vector<Series> series =
      series_by_placement(rows, topology, figure::SeriesKind::points, point_of);
  for (const double rate : hbm_gbs) {
    series.push_back({.name = hbm_gbs.size() == 1 ? "roof" : fmt::format("{:.4g} GB/s", rate),
                      .points = roof(range, peak, rate),
                      .kind = figure::SeriesKind::bound});
  }
  return figure::to_svg(figure::LineChart{
      .title = "GEMM: roofline of a PE",
      .subtitle = array_text(topology) + "; f16",
      .x = {.title = "arithmetic intensity (FLOP per byte of HBM traffic)", .scale = Scale::log10},
      .y = {.title = "rate per PE (TFLOP/s)", .scale = Scale::log10},
      .series = std::move(series),
      .note = fmt::format("Roof: {:.4g} TFLOP/s of the array, {:.4g} GB/s of HBM for each PE.  "
                          "Traffic as counted, loads and stores.",
                          peak, fmt::join(hbm_gbs, " or "))});
}

}  // namespace kernbench::benches
