#include "benches/variants/row_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"

namespace kernbench::benches::variants {

namespace {

std::set<std::string> columns_in(std::span<const Row> rows) {
  std::set<std::string> columns;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) columns.insert(column);
  }
  return columns;
}

bool has_reals(std::span<const Row> rows, const std::string& column) {
  return std::ranges::any_of(rows, [&](const Row& row) {
    const Cell* const cell = row.find(column);
    return cell != nullptr && std::holds_alternative<double>(*cell);
  });
}

// A wait is a text that tells what was waited for, too.
bool is_measured(std::span<const Row> before, std::span<const Row> after,
                 const std::string& column) {
  return holds_numbers(before, after, column) || column.ends_with("_wait");
}

std::string text_in_row(const Row& row, const std::string& column) {
  const Cell* const cell = row.find(column);
  return cell == nullptr ? "" : to_text(*cell);
}

std::vector<std::string> list_texts(std::span<const Row> rows, const std::string& column) {
  std::vector<std::string> texts;
  for (const Row& row : rows) texts.push_back(text_in_row(row, column));
  std::ranges::sort(texts);
  return texts;
}

std::string joined(std::vector<std::string> texts) {
  const auto again = std::ranges::unique(texts);
  texts.erase(again.begin(), again.end());
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string joined_cells(const Row& row, const std::vector<std::string>& columns) {
  std::string key;
  for (const std::string& column : columns) key += text_in_row(row, column) + '\n';
  return key;
}

bool are_texts(std::span<const Row> rows, const std::string& column) {
  return std::ranges::all_of(rows, [&](const Row& row) {
    const Cell* const cell = row.find(column);
    return cell == nullptr || std::holds_alternative<std::string>(*cell);
  });
}

// True if whole numbers and texts of other columns tell each row from the others.
bool are_told_apart(std::span<const Row> rows, const std::set<std::string>& names,
                    const std::string& without) {
  std::vector<std::string> columns;
  for (const std::string& column : names) {
    if (column != without && !is_measured(rows, rows, column)) columns.push_back(column);
  }
  std::set<std::string> keys;
  for (const Row& row : rows) keys.insert(joined_cells(row, columns));
  return keys.size() == rows.size();
}

// What two runs are asked for: `same` inputs, so that what differs is a result, or perhaps others.
enum class Asked : std::uint8_t { same, others };

RowColumns sort_columns(std::span<const Row> before, std::span<const Row> after, Asked asked) {
  RowColumns columns;
  std::set<std::string> names = columns_in(before);
  names.merge(columns_in(after));
  for (const std::string& column : names) {
    if (is_measured(before, after, column)) {
      columns.measured.push_back(column);
      continue;
    }
    const std::vector<std::string> old_texts = list_texts(before, column);
    const std::vector<std::string> new_texts = list_texts(after, column);
    const bool has_same = std::ranges::find_first_of(old_texts, new_texts) != old_texts.end();
    const bool may_be_result = asked == Asked::same || are_texts(before, column);
    const bool is_needless = old_texts != new_texts && may_be_result &&
                             are_told_apart(before, names, column) &&
                             are_told_apart(after, names, column);
    if (!has_same || is_needless) {
      columns.differences.push_back(
          fmt::format("{}: {} -> {}", column, joined(old_texts), joined(new_texts)));
      continue;
    }
    columns.matching.push_back(column);
    std::set<std::string> texts(old_texts.begin(), old_texts.end());
    texts.insert(new_texts.begin(), new_texts.end());
    texts.erase("");  // of rows that do not have the cell
    const bool varies = texts.size() > 1;
    if (varies) columns.naming.push_back(column);
  }
  return columns;
}

void keep_common(std::vector<std::string>& columns, const std::vector<std::string>& others) {
  std::erase_if(columns, [&](const std::string& column) {
    return std::ranges::find(others, column) == others.end();
  });
}

bool are_same_in_all(std::span<const std::vector<Row>> runs, const std::string& column) {
  const std::vector<std::string> texts = list_texts(runs.front(), column);
  const bool varies = texts.front() != texts.back();
  return varies && std::ranges::all_of(runs, [&](const std::vector<Row>& run) {
           return list_texts(run, column) == texts;
         });
}

// Where inputs do not tell all rows apart, real numbers that are the same in all runs are inputs.
void add_same_numbers(std::span<const std::vector<Row>> runs, RowColumns& columns) {
  std::set<std::string> keys;
  for (const Row& row : runs.front()) keys.insert(joined_cells(row, columns.matching));
  if (keys.size() == runs.front().size()) return;
  for (const std::string& column : columns.measured) {
    const bool is_real = has_reals(runs.front(), column) && !is_time_column(column);
    if (!is_real || !are_same_in_all(runs, column)) continue;
    columns.matching.push_back(column);
    columns.naming.push_back(column);
  }
}

}  // namespace

bool is_time_column(const std::string& column) {
  return column.ends_with("_ns");
}

bool holds_numbers(std::span<const Row> before, std::span<const Row> after,
                   const std::string& column) {
  return is_time_column(column) || column.ends_with("wrong") || column == "hbm_bytes" ||
         has_reals(before, column) || has_reals(after, column);
}

std::optional<double> number_in_row(const Row& row, const std::string& column) {
  const Cell* const cell = row.find(column);
  if (cell == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(cell)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(cell)) return *real;
  return std::nullopt;
}

RowColumns choose_columns(std::span<const Row> before, std::span<const Row> after) {
  return sort_columns(before, after, Asked::others);
}

RowColumns common_columns(std::span<const std::vector<Row>> runs) {
  RowColumns common = sort_columns(runs.front(), runs.front(), Asked::same);
  for (const std::vector<Row>& run : runs.subspan(1)) {
    const RowColumns columns = sort_columns(runs.front(), run, Asked::same);
    keep_common(common.matching, columns.matching);
    keep_common(common.naming, columns.matching);
  }
  add_same_numbers(runs, common);
  return common;
}

void shorten_names(std::span<const Row> rows, RowColumns& columns) {
  const auto count_keys = [&](const std::vector<std::string>& names) {
    std::set<std::string> keys;
    for (const Row& row : rows) keys.insert(joined_cells(row, names));
    return keys.size();
  };
  const std::size_t all = count_keys(columns.naming);
  std::vector<std::string> kept;
  std::size_t told_apart = 1;
  for (const Row& row : rows) {
    for (const auto& [column, cell] : row.cells()) {
      const auto& naming = columns.naming;
      const bool is_new = std::ranges::find(kept, column) == kept.end();
      if (told_apart >= all || !is_new) continue;
      if (std::ranges::find(naming, column) == naming.end()) continue;
      kept.push_back(column);
      const std::size_t with_it = count_keys(kept);
      if (with_it == told_apart) kept.pop_back();
      told_apart = with_it;
    }
  }
  columns.naming = kept;
}

std::string matching_key(const Row& row, const RowColumns& columns) {
  return joined_cells(row, columns.matching);
}

std::string row_name(const Row& row, const RowColumns& columns) {
  std::string name;
  for (const std::string& column : columns.naming) {
    const std::string text = text_in_row(row, column);
    if (!text.empty()) name += fmt::format("{}{} {}", name.empty() ? "" : ", ", column, text);
  }
  return name;
}

std::string short_row_name(const Row& row, const RowColumns& columns) {
  std::string name;
  for (const std::string& column : columns.naming) {
    const Cell* const cell = row.find(column);
    if (cell == nullptr) continue;
    const bool is_text = std::holds_alternative<std::string>(*cell);
    name += fmt::format("{}{}{}", name.empty() ? "" : ", ", is_text ? "" : column + " ",
                        to_text(*cell));
  }
  return name;
}

}  // namespace kernbench::benches::variants
