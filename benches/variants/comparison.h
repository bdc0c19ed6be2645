// Compares the rows of two runs (ADR-0200).

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/row.h"

namespace kernbench::benches::variants {

// A number of a row in both runs.
struct ComparedNumber {
  std::string column;
  double before = 0;
  double after = 0;

  double ratio() const { return after / before; }
};

// A row that both runs have.
struct ComparedRow {
  std::string name;                     // the cells in which rows differ: "n_elem 4096"
  std::vector<ComparedNumber> numbers;  // that both have
  const ComparedNumber* find(const std::string& column) const;
};

struct Comparison {
  std::vector<std::string> differences;  // cells of which no row of one run is in the other
  std::vector<ComparedRow> rows;
  std::vector<std::string> only_before;  // the names of rows that the second run does not have
  std::size_t only_after = 0;            // rows
};

// Rows match if all their cells are equal that are no measured numbers.  A column whose cells are
// not the same in both runs, as `algorithm` may be, tells what was changed and matches nothing.
Comparison compare_rows(std::span<const Row> before, std::span<const Row> after);

// A line for each row, that whose `column` changed most first, and below it the other times of the
// row that changed, the largest difference first.
std::string to_table(const Comparison& comparison, const std::string& column);

// "time_ns > 1.05 * baseline": a condition on a number of a row.
class Condition {
 public:
  // Throws UsageError KB-U019 if `text` has another form.
  explicit Condition(const std::string& text);

  const std::string& column() const { return column_; }
  const std::string& text() const { return text_; }
  bool holds(const ComparedNumber& number) const;

 private:
  void parse_limit(std::string_view rest);

  std::string text_;
  std::string column_;
  std::string operator_;
  double factor_ = 0;    // of the baseline
  double constant_ = 0;  // added to it
};

// Throws NumericsError KB-N050, which names the rows, if the condition holds for any row or the
// second run lacks a row of the first, and UsageError KB-U019 if no row has its column.
void check_condition(const Comparison& comparison, const Condition& condition);

// The rows of a report that `kernbench run --json` wrote.
struct SavedReport {
  std::string file;
  std::string bench;
  std::string topology;
  std::vector<Row> rows;
};

// Throws ConfigError KB-I003, which names the file: it is damaged, no report, or one of another
// version of kernbench.
SavedReport read_report(const std::string& file);

// Throws ConfigError KB-I003, which names the file, the row and the column, if a text stands in a
// column of numbers of either report.
void check_numbers(const SavedReport& before, const SavedReport& after);

}  // namespace kernbench::benches::variants
