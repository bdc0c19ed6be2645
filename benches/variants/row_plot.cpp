#include "benches/variants/row_plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/settings.h"
#include "benches/figure/text.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::variants {

namespace {

constexpr double kLogarithmicFrom = 8;  // the largest x by the smallest one

std::string find_column(std::span<const Row> rows, const std::string& wanted) {
  std::vector<std::string_view> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  if (std::ranges::find(columns, wanted) != columns.end()) return wanted;
  const auto longer = std::ranges::find_if(
      columns, [&](std::string_view column) { return column.starts_with(wanted + '_'); });
  if (longer != columns.end()) return std::string(*longer);
  throw UsageError("KB-U018", "--plot: the rows have no column {}{}; there are: {}",
                   in_quotes(wanted), suggestion(wanted, columns), fmt::join(columns, ", "));
}

std::optional<double> to_number(const Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(&cell)) return *real;
  return std::nullopt;
}

// "64 GB/s" is 64 of the unit "GB/s".
std::optional<std::pair<double, std::string>> read_quantity(const Cell& cell) {
  if (const auto number = to_number(cell)) return std::pair(*number, std::string());
  const auto* const text = std::get_if<std::string>(&cell);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(text->c_str(), &end);
  const std::string_view unit = end;
  if (end == text->c_str() || !unit.starts_with(' ')) return std::nullopt;
  return std::pair(number, std::string(unit.substr(1)));
}

struct Axis {
  std::vector<double> places;      // of the rows' cells
  std::vector<std::string> names;  // of the places 0, 1, ...; empty: places are numbers
  std::string title;

  bool is_logarithmic() const {
    if (!names.empty()) return false;
    const auto [least, most] = std::ranges::minmax(places);
    return least > 0 && most / least >= kLogarithmicFrom;
  }
  // True of whole numbers that are easier to read as "64 Ki".
  bool is_of_sizes() const {
    constexpr double kLeast = 4096;
    return is_logarithmic() && std::ranges::max(places) >= kLeast &&
           std::ranges::all_of(places, [](double place) { return std::floor(place) == place; });
  }
};

// Texts beside each other.
Axis named_axis(std::span<const Cell* const> cells, const std::string& column) {
  Axis axis{.places = {}, .names = {}, .title = column};
  for (const Cell* cell : cells) {
    const std::string name = to_text(*cell);
    const auto known = std::ranges::find(axis.names, name);
    axis.places.push_back(static_cast<double>(known - axis.names.begin()));
    if (known == axis.names.end()) axis.names.push_back(name);
  }
  return axis;
}

Axis make_axis(std::span<const Cell* const> cells, const std::string& column) {
  Axis axis{.places = {}, .names = {}, .title = column};
  std::optional<std::string> unit;
  for (const Cell* cell : cells) {
    const auto quantity = read_quantity(*cell);
    if (!quantity || (unit && *unit != quantity->second)) return named_axis(cells, column);
    unit = quantity->second;
    axis.places.push_back(quantity->first);
  }
  if (unit && !unit->empty()) axis.title = fmt::format("{} ({})", column, *unit);
  return axis;
}

bool is_in_ns(const std::string& column) {
  return column.ends_with("_ns");
}

struct Points {
  std::vector<const Cell*> xs;
  std::vector<double> ys;
  std::vector<double> lows;  // of bands
  std::vector<double> highs;
  std::vector<std::string> series;
  std::vector<std::string> names;  // of the series, each once
};

// A number alone would not say what it is of: "tp = 4", but "ring_allreduce".
std::string name_of_series(const std::string& column, const Cell& cell) {
  const std::string text = to_text(cell);
  return to_number(cell) ? fmt::format("{} = {}", column, text) : text;
}

// The rows of a legend whose names are as long as these, one of them at least as long as any other.
int count_key_rows(const std::vector<std::string>& names) {
  constexpr double kWidth = 800;  // of the page, for the legend
  constexpr double kSample = 60;  // of a line's sample, and the gap behind its name
  constexpr double kFontSize = 16;
  double widest = 0;
  for (const std::string& name : names) {
    widest = std::max(widest, kSample + figure::text_width(name, kFontSize));
  }
  const int columns = std::max(1, static_cast<int>(kWidth / widest));
  const int count = static_cast<int>(names.size());
  return (count + columns - 1) / columns;
}

// `columns`: those of x, y and the series.
Points collect_points(std::span<const Row> rows, const PlotRequest& columns) {
  Points points;
  for (const Row& row : rows) {
    const Cell* const x = row.find(columns.x);
    const Cell* const y = row.find(columns.y);
    const auto number = y == nullptr ? std::nullopt : to_number(*y);
    if (x == nullptr || !number) continue;
    const Cell* const by = columns.by.empty() ? nullptr : row.find(columns.by);
    points.xs.push_back(x);
    const double scale = is_in_ns(columns.y) ? 1e-3 : 1;
    points.ys.push_back(*number * scale);
    if (!columns.low.empty()) {
      points.lows.push_back(number_in(row, columns.low) * scale);
      points.highs.push_back(number_in(row, columns.high) * scale);
    }
    points.series.push_back(by == nullptr ? columns.y : name_of_series(columns.by, *by));
    if (std::ranges::find(points.names, points.series.back()) == points.names.end()) {
      points.names.push_back(points.series.back());
    }
  }
  if (!points.xs.empty()) return points;
  throw UsageError("KB-U018", "--plot: no row has a number in {}", in_quotes(columns.y));
}

}  // namespace

PlotRequest parse_plot(const std::string& text) {
  PlotRequest request;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string part(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string name = part.substr(0, equals);
    std::string* const member = name == "x"    ? &request.x
                                : name == "y"  ? &request.y
                                : name == "by" ? &request.by
                                               : nullptr;
    if (member == nullptr || equals + 1 >= part.size() || !member->empty()) {
      request = {};
      break;
    }
    *member = part.substr(equals + 1);
  }
  if (!request.x.empty() && !request.y.empty()) return request;
  throw UsageError("KB-U018",
                   "--plot {}: expected x=COLUMN,y=COLUMN or x=COLUMN,y=COLUMN,by=COLUMN",
                   in_quotes(text));
}

void check_columns(std::span<const Row> rows, const PlotRequest& request) {
  for (const std::string& column : {request.x, request.y, request.by}) {
    if (!column.empty()) find_column(rows, column);
  }
}

RowPlot make_plot(std::span<const Row> rows, const PlotRequest& request, std::string title,
                  std::string csv) {
  const std::string y = find_column(rows, request.y);
  const Points points = collect_points(
      rows, {find_column(rows, request.x), y,
             request.by.empty() ? "" : find_column(rows, request.by), request.low, request.high});
  const Axis axis = make_axis(points.xs, find_column(rows, request.x));
  std::vector<std::size_t> order(points.ys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const auto series = std::ranges::find(points.names, points.series[i]);
    return std::pair(series - points.names.begin(), axis.places[i]);
  });
  RowPlot plot;
  for (const std::size_t i : order) {
    Row& point = plot.points.emplace_back();
    point.set("x", axis.places[i]).set("y", points.ys[i]).set("series", points.series[i]);
    if (!request.low.empty()) point.set("low", points.lows[i]).set("high", points.highs[i]);
  }
  const bool has_names = !axis.names.empty();
  plot.chart = {.form = request.low.empty() ? "rows" : "bands",
                .csv = std::move(csv),
                .title = std::move(title),
                .key_rows = count_key_rows(points.names),
                .values = {{"x_title", axis.title},
                           {"y_title", is_in_ns(y) ? y.substr(0, y.size() - 3) + " (us)" : y},
                           {"logarithmic", axis.is_logarithmic() ? 1.0 : 0.0},
                           {"has_names", has_names ? 1.0 : 0.0},
                           {"has_sizes", axis.is_of_sizes() ? 1.0 : 0.0},
                           {"names", has_names ? axis.names : std::vector<std::string>{"-"}},
                           {"series", points.names}}};
  return plot;
}

}  // namespace kernbench::benches::variants
