#include "benches/bench/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "benches/bench/cell_text.h"

namespace kernbench::benches {

namespace {

std::vector<std::string> list_columns(std::span<const Row> rows) {
  std::vector<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      if (std::ranges::find(columns, column) == columns.end()) columns.push_back(column);
    }
  }
  return columns;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

}  // namespace

Row::Row() : cells_(std::make_unique<Cells>()) {}
Row::Row(const Row& other) : cells_(std::make_unique<Cells>(*other.cells_)) {}
Row::Row(Row&& other) noexcept = default;
Row& Row::operator=(Row other) noexcept {
  cells_ = std::move(other.cells_);
  return *this;
}
Row::~Row() = default;

Row& Row::set_cell(std::string_view column, Cell cell) {
  cells_->emplace_back(column, std::move(cell));
  return *this;
}

Row& Row::set_flag(std::string_view column, bool value) {
  return set_cell(column, value);
}

Row& Row::set_integer(std::string_view column, std::int64_t value) {
  return set_cell(column, value);
}

Row& Row::set_number(std::string_view column, double value) {
  return set_cell(column, value);
}

Row& Row::set_text(std::string_view column, std::string_view value) {
  return set_cell(column, std::string(value));
}

Row& Row::set_nothing(std::string_view column) {
  return set_cell(column, nullptr);
}

const Cell* Row::find(std::string_view column) const {
  const auto found = std::ranges::find(
      *cells_, column, [](const auto& cell) { return std::string_view(cell.first); });
  return found == cells_->end() ? nullptr : &found->second;
}

std::string to_csv(std::span<const Row> rows) {
  const std::vector<std::string> columns = list_columns(rows);
  std::string csv;
  const auto add_line = [&](const auto& text_of_column) {
    for (const std::string& column : columns) {
      if (&column != &columns.front()) csv += ',';
      csv += csv_field(text_of_column(column));
    }
    csv += "\r\n";
  };
  if (columns.empty()) return csv;
  add_line([](const std::string& column) { return column; });
  for (const Row& row : rows) {
    add_line([&](const std::string& column) {
      const Cell* cell = row.find(column);
      return cell == nullptr ? std::string() : to_text(*cell);
    });
  }
  return csv;
}

std::string to_table(std::span<const Row> rows) {
  std::vector<std::string> lines(rows.size() + 1, "#");
  for (const std::string& column : list_columns(rows)) {
    std::vector<std::string> texts = {column};
    for (const Row& row : rows) {
      const Cell* cell = row.find(column);
      const bool is_empty = cell == nullptr || std::holds_alternative<std::nullptr_t>(*cell);
      texts.push_back(is_empty ? "-" : to_text(*cell));
    }
    const auto widest = std::ranges::max(texts, {}, &std::string::size).size();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i] += fmt::format("  {:>{}}", texts[i], widest);
    }
  }
  std::string table;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) lines[i][0] = ' ';  // only the head is a comment
    table += lines[i] + '\n';
  }
  return table;
}

}  // namespace kernbench::benches
