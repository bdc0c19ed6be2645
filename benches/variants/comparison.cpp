#include "benches/variants/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "benches/bench/cell.h"
#include "benches/bench/cell_text.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::size_t kMostRows = 20;
constexpr std::size_t kMostCauses = 5;

bool is_time(const std::string& column) {
  return column.ends_with("_ns");
}

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

bool has_numbers(std::span<const Row> before, std::span<const Row> after,
                 const std::string& column) {
  return is_time(column) || column.ends_with("wrong") || column == "hbm_bytes" ||
         has_reals(before, column) || has_reals(after, column);
}

// A wait is a text that tells what was waited for, too.
bool is_measured(std::span<const Row> before, std::span<const Row> after,
                 const std::string& column) {
  return has_numbers(before, after, column) || column.ends_with("_wait");
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

std::string make_key(const Row& row, const std::vector<std::string>& columns) {
  std::string key;
  for (const std::string& column : columns) key += text_in_row(row, column) + '\n';
  return key;
}

std::optional<double> number_in_row(const Row& row, const std::string& column) {
  const Cell* const cell = row.find(column);
  if (cell == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(cell)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(cell)) return *real;
  return std::nullopt;
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
  for (const Row& row : rows) keys.insert(make_key(row, columns));
  return keys.size() == rows.size();
}

// The columns that tell the rows of a run apart.
struct Columns {
  std::vector<std::string> matching;
  std::vector<std::string> naming;  // of these, those that differ between rows
  std::vector<std::string> measured;
};

Columns choose_columns(std::span<const Row> before, std::span<const Row> after,
                       std::vector<std::string>& differences) {
  Columns columns;
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
    const bool is_needless = old_texts != new_texts && are_texts(before, column) &&
                             are_told_apart(before, names, column) &&
                             are_told_apart(after, names, column);
    if (!has_same || is_needless) {
      differences.push_back(
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

std::string row_name(const Row& row, const Columns& columns) {
  std::string name;
  for (const std::string& column : columns.naming) {
    const std::string text = text_in_row(row, column);
    if (!text.empty()) name += fmt::format("{}{} {}", name.empty() ? "" : ", ", column, text);
  }
  return name;
}

ComparedRow compare_row(const Row& before, const Row& after, const Columns& columns) {
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
  const double scale = is_time(number.column) ? 1e-3 : 1;
  return fmt::format("  {:<54} {:>14.3f} {:>14.3f} {:>14.3f} {:>8.3f}\n", name,
                     number.before * scale, number.after * scale,
                     (number.after - number.before) * scale, number.ratio());
}

std::string describe_causes(const ComparedRow& row, const std::string& column) {
  std::vector<ComparedNumber> causes;
  for (const ComparedNumber& number : row.numbers) {
    const bool is_cause = is_time(number.column) && number.column != column;
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
  for (const SavedReport* report : {&before, &after}) {
    for (std::size_t i = 0; i < report->rows.size(); ++i) {
      for (const auto& [column, cell] : report->rows[i].cells()) {
        const auto* const text = std::get_if<std::string>(&cell);
        if (text == nullptr || !has_numbers(before.rows, after.rows, column)) continue;
        throw ConfigError("KB-I003", "{} is damaged: row {} has {} for {}, which is a number",
                          in_quotes(report->file), i + 1, in_quotes(*text), column);
      }
    }
  }
}

Comparison compare_rows(std::span<const Row> before, std::span<const Row> after) {
  Comparison comparison;
  const Columns columns = choose_columns(before, after, comparison.differences);
  std::multimap<std::string, const Row*> others;
  for (const Row& row : after) others.emplace(make_key(row, columns.matching), &row);
  for (const Row& row : before) {
    const auto other = others.find(make_key(row, columns.matching));
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
  const std::string_view unit = is_time(column) ? "(us)" : "";
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
