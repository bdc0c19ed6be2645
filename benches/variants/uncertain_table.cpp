// Bands as rows for machines, and as a table for people.

#include <fmt/format.h>

#include <algorithm>

#include "benches/bench/cell.h"
#include "benches/variants/row_columns.h"
#include "benches/variants/uncertain_runs.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostBands = 40;
constexpr std::size_t kWidestName = 40;

std::size_t widest_name(std::span<const Band> bands) {
  std::size_t widest = 12;
  for (const Band& band : bands) {
    if (band.name.size() <= kWidestName) widest = std::max(widest, band.name.size());
  }
  return widest;
}

// The band's cells, but for those whose columns have a meaning here.
Row cells_of(const Band& band, std::span<const std::string> columns) {
  Row row;
  for (const auto& [column, cell] : band.row.cells()) {
    if (std::ranges::find(columns, column) == columns.end()) row.set_cell(column, cell);
  }
  return row;
}

// A longer name has a line of its own.
std::string band_line(const Band& band, const Samples& samples, double scale, std::size_t width) {
  const auto dependence = strongest_dependence(band, samples);
  const std::string cause = dependence ? fmt::format("{:+.2f} {}", dependence->correlation,
                                                     samples.ranges[dependence->range].key->name)
                                       : "    - none of them";
  const std::string name = band.name.empty() ? "all" : band.name;
  const bool has_own_line = name.size() > width;
  return fmt::format("{}  {:<{}} {:>10.3f} {:>10.3f} {:>10.3f} {:>10}  {}\n",
                     has_own_line ? fmt::format("  {}\n", name) : "", has_own_line ? "" : name,
                     width, band.low() * scale, band.median() * scale, band.high() * scale,
                     band.as_it_is ? fmt::format("{:.3f}", *band.as_it_is * scale) : "-", cause);
}

}  // namespace

std::vector<Row> to_rows(std::span<const Band> bands, const Samples& samples,
                         const std::string& column) {
  const std::string ending = is_time_column(column) ? "_ns" : "";
  const std::vector<std::string> columns = {"metric",          "runs",          "low" + ending,
                                            "median" + ending, "high" + ending, "as_it_is" + ending,
                                            "depends_on",      "correlation"};
  std::vector<Row> rows;
  for (const Band& band : bands) {
    const auto dependence = strongest_dependence(band, samples);
    Row row = cells_of(band, columns);
    row.set(columns[0], column)
        .set(columns[1], samples.runs.size())
        .set(columns[2], band.low())
        .set(columns[3], band.median())
        .set(columns[4], band.high())
        .set(columns[5], band.as_it_is)
        .set(columns[6], dependence ? samples.ranges[dependence->range].key->name : "none")
        .set(columns[7], dependence ? dependence->correlation : 0.0);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string to_table(std::span<const Band> bands, const Samples& samples,
                     const std::string& column) {
  const double scale = is_time_column(column) ? 1e-3 : 1;
  const std::string_view unit = is_time_column(column) ? "(us)" : "";
  const std::size_t width = widest_name(bands);
  std::string text = fmt::format(
      "#\n# {:<{}} {:>10} {:>10} {:>10} {:>10}  depends most on\n"
      "# {:<{}} {:>10} {:>10} {:>10} {:>10}  (rank correlation)\n",
      column, width, "low", "median", "high", "as it is",
      fmt::format("in {} runs", samples.runs.size()), width, unit, unit, unit, unit);
  for (const Band& band : bands.first(std::min(bands.size(), kMostBands))) {
    text += band_line(band, samples, scale, width);
  }
  if (bands.size() > kMostBands) {
    text += fmt::format("# and {} more rows, in --json and --csv\n", bands.size() - kMostBands);
  }
  return text;
}

}  // namespace kernbench::benches::variants
