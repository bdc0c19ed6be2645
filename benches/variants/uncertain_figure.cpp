// Bands as a figure.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"
#include "benches/variants/row_columns.h"
#include "benches/variants/uncertain_runs.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostCurves = 6;

std::string text_of(const Band& band, const std::string& column) {
  const Cell* const cell = band.row.find(column);
  return cell == nullptr ? "" : to_text(*cell);
}

bool is_whole_in_all(std::span<const Band> bands, const std::string& column) {
  return std::ranges::all_of(bands, [&](const Band& band) {
    const Cell* const cell = band.row.find(column);
    return cell != nullptr && std::holds_alternative<std::int64_t>(*cell);
  });
}

std::size_t count_texts(std::span<const Band> bands, const std::string& column) {
  std::set<std::string> texts;
  for (const Band& band : bands) texts.insert(text_of(band, column));
  return texts.size();
}

// Empty if there is none.
std::string choose_x(std::span<const Band> bands) {
  std::string best;
  std::size_t most = 1;
  for (const auto& [column, cell] : bands.front().row.cells()) {
    if (!is_whole_in_all(bands, column)) continue;
    const std::size_t count = count_texts(bands, column);
    if (count <= most) continue;
    best = column;
    most = count;
  }
  return best;
}

// True if a row's place tells the text of this column.
bool follows(std::span<const Band> bands, const std::string& column, const std::string& x) {
  std::map<std::string, std::string> texts;
  return std::ranges::all_of(bands, [&](const Band& band) {
    const std::string text = text_of(band, column);
    return texts.emplace(text_of(band, x), text).first->second == text;
  });
}

// The columns whose texts tell the curves apart.
RowColumns curve_columns(std::span<const Band> bands, const std::string& x) {
  RowColumns columns;
  for (const auto& [column, cell] : bands.front().row.cells()) {
    if (column != x && !follows(bands, column, x)) columns.naming.push_back(column);
  }
  std::vector<Row> rows;
  for (const Band& band : bands) rows.push_back(band.row);
  shorten_names(rows, columns);
  return columns;
}

}  // namespace

std::optional<RowPlot> plot_bands(std::span<const Band> bands, const std::string& column,
                                  std::string csv) {
  const std::string x = bands.empty() ? "" : choose_x(bands);
  if (x.empty()) return std::nullopt;
  const RowColumns columns = curve_columns(bands, x);
  std::vector<std::string> curves;
  std::vector<Row> rows;
  for (const Band& band : bands) {
    const std::string curve = columns.naming.empty() ? column : short_row_name(band.row, columns);
    if (std::ranges::find(curves, curve) == curves.end()) curves.push_back(curve);
    const auto place = std::ranges::find(curves, curve) - curves.begin();
    if (static_cast<std::size_t>(place) >= kMostCurves) continue;
    Row& row = rows.emplace_back();
    row.set_cell(x, *band.row.find(x));
    row.set(column, band.median())
        .set("band low", band.low())
        .set("band high", band.high())
        .set("curve", curve);
  }
  RowPlot plot =
      make_plot(rows, {.x = x, .y = column, .by = "curve", .low = "band low", .high = "band high"},
                fmt::format("{} over {}: median, and all runs", column, x), std::move(csv));
  if (curves.size() > kMostCurves) {
    plot.chart.note = fmt::format("The first {} of {} curves.", kMostCurves, curves.size());
  }
  return plot;
}

}  // namespace kernbench::benches::variants
