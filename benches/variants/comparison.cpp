#include "benches/variants/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "benches/bench/cell.h"
#include "benches/variants/row_columns.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostRows = 20;
constexpr std::size_t kMostCauses = 5;

ComparedRow compare_row(const Row& before, const Row& after, const RowColumns& columns) {
  ComparedRow row{.name = row_name(before, columns), .numbers = {}};
  for (const std::string& column : columns.measured) {
    const auto old_number = number_in_row(before, column);
    const auto new_number = number_in_row(after, column);
    if (old_number && new_number) row.numbers.push_back({column, *old_number, *new_number});
  }
  return row;
}

// The change of a row, as the logarithm of the factor in either direction.
double compute_change(const ComparedRow& row, const std::string& column) {
  const ComparedNumber* const number = row.find(column);
  if (number == nullptr || number->before == number->after) return 0;
  if (number->before <= 0 || number->after <= 0) return std::numeric_limits<double>::infinity();
  return std::abs(std::log(number->ratio()));
}

std::string format_line(std::string_view name, const ComparedNumber& number) {
  const double scale = is_time_column(number.column) ? 1e-3 : 1;
  return fmt::format("  {:<54} {:>14.3f} {:>14.3f} {:>14.3f} {:>8.3f}\n", name,
                     number.before * scale, number.after * scale,
                     (number.after - number.before) * scale, number.ratio());
}

std::string describe_causes(const ComparedRow& row, const std::string& column) {
  std::vector<ComparedNumber> causes;
  for (const ComparedNumber& number : row.numbers) {
    const bool is_cause = is_time_column(number.column) && number.column != column;
    if (is_cause && number.before != number.after) causes.push_back(number);
  }
  std::ranges::stable_sort(causes, std::greater(), [](const ComparedNumber& cause) {
    return std::abs(cause.after - cause.before);
  });
  std::string text;
  for (const ComparedNumber& cause :
       std::span(causes).first(std::min(causes.size(), kMostCauses))) {
    text += format_line("    " + cause.column, cause);
  }
  return text;
}

}  // namespace

const ComparedNumber* ComparedRow::find(const std::string& column) const {
  const auto found = std::ranges::find(numbers, column, &ComparedNumber::column);
  return found == numbers.end() ? nullptr : &*found;
}

void check_numbers(const SavedReport& before, const SavedReport& after) {
  std::map<std::string, bool> are_numbers;  // by column: to find out reads all rows
  for (const SavedReport* report : {&before, &after}) {
    for (std::size_t i = 0; i < report->rows.size(); ++i) {
      for (const auto& [column, cell] : report->rows[i].cells()) {
        const auto* const text = std::get_if<std::string>(&cell);
        if (text == nullptr) continue;
        const auto [known, is_new] = are_numbers.try_emplace(column);
        if (is_new) known->second = holds_numbers(before.rows, after.rows, column);
        if (!known->second) continue;
        throw ConfigError("KB-I003", "{} is damaged: row {} has {} for {}, which is a number",
                          in_quotes(report->file), i + 1, in_quotes(*text), column);
      }
    }
  }
}

Comparison compare_rows(std::span<const Row> before, std::span<const Row> after) {
  Comparison comparison;
  const RowColumns columns = choose_columns(before, after);
  comparison.differences = columns.differences;
  std::multimap<std::string, const Row*> others;
  for (const Row& row : after) others.emplace(matching_key(row, columns), &row);
  for (const Row& row : before) {
    const auto other = others.find(matching_key(row, columns));
    if (other == others.end()) {
      comparison.only_before.push_back(row_name(row, columns));
      continue;
    }
    comparison.rows.push_back(compare_row(row, *other->second, columns));
    others.erase(other);
  }
  comparison.only_after = others.size();
  return comparison;
}

std::string to_table(const Comparison& comparison, const std::string& column) {
  std::string text = "#\n";
  for (const std::string& difference : comparison.differences) {
    text += fmt::format("# {}\n", difference);
  }
  const std::string_view unit = is_time_column(column) ? "(us)" : "";
  text += fmt::format("# {:<54} {:>14} {:>14} {:>14} {:>8}\n# {:<54} {:>14} {:>14} {:>14}\n",
                      column, "before", "after", "difference", "ratio", "", unit, unit, unit);
  std::vector<const ComparedRow*> rows;
  for (const ComparedRow& row : comparison.rows) {
    if (row.find(column) != nullptr) rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, std::greater(),
                           [&](const ComparedRow* row) { return compute_change(*row, column); });
  for (const ComparedRow* row : std::span(rows).first(std::min(rows.size(), kMostRows))) {
    text += format_line(row->name.empty() ? "all" : row->name, *row->find(column));
    text += describe_causes(*row, column);
  }
  if (rows.size() > kMostRows) text += fmt::format("# and {} more rows\n", rows.size() - kMostRows);
  if (comparison.only_before.size() + comparison.only_after > 0) {
    text += fmt::format("# rows of one run alone: {} before, {} after\n",
                        comparison.only_before.size(), comparison.only_after);
  }
  return text;
}

}  // namespace kernbench::benches::variants
