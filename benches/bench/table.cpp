#include "benches/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "benches/bench/cell.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/line_width.h"

namespace kernbench::benches {

namespace {

std::string in_width(std::string_view text, int width) {
  return width > 0 ? fmt::format(" {:>{}}", text, width) : fmt::format("  {:<{}}", text, -width);
}

std::string to_text(const TableColumn& column, const Cell& cell, std::string_view missing) {
  if (std::holds_alternative<std::nullptr_t>(cell)) return std::string(missing);
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return fmt::format("{}", *whole);
  const double number = std::get<double>(cell) * column.scale;
  if (std::isnan(number)) return "nan";  // its sign means nothing
  return column.digits < 0 ? fmt::format("{:.4g}", number)
                           : fmt::format("{:.{}f}", number, column.digits);
}

}  // namespace

std::size_t compute_width(const TableColumn& column) {
  constexpr int kRoomForText = -46;
  return in_width(column.title, column.width == 0 ? kRoomForText : column.width).size();
}

std::vector<std::vector<TableColumn>> fold(std::span<const TableColumn> columns, std::size_t keys) {
  const std::vector<TableColumn> first(columns.begin(),
                                       columns.begin() + static_cast<std::ptrdiff_t>(keys));
  std::vector<std::vector<TableColumn>> tables;
  std::size_t room = 0;
  for (const TableColumn& column : columns.subspan(keys)) {
    if (tables.empty() || compute_width(column) > room) {
      tables.push_back(first);
      room = kLineWidth - 1;
      for (const TableColumn& key : first) room -= compute_width(key);
    }
    tables.back().push_back(column);
    room -= std::min(room, compute_width(column));
  }
  return tables;
}

std::string table_head(std::span<const TableColumn> columns) {
  std::string titles = "#";
  std::string units = "#";
  for (const TableColumn& column : columns) {
    titles += in_width(column.title, column.width);
    units += in_width(column.unit, column.width);
  }
  units.erase(units.find_last_not_of(' ') + 1);
  return titles + '\n' + units + '\n';
}

std::string table_line(std::span<const TableColumn> columns, const Row& row, const Console& console,
                       std::string_view missing) {
  std::string line = " ";
  for (const TableColumn& column : columns) {
    const Cell* const cell = row.find(column.cell);
    KB_CHECK(cell != nullptr, "no column '{}'", column.cell);
    const std::string text = to_text(column, *cell, missing);
    const bool is_wrong = column.title == "#wrong" && text != "0" && text != missing;
    const std::string placed = in_width(text, column.width);
    line += is_wrong ? console.alarming(placed) : placed;
  }
  return line + '\n';
}

}  // namespace kernbench::benches
