// The columns that tell the rows of a run apart, and by which rows of several runs match
// (ADR-0200).

#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/row.h"

namespace kernbench::benches::variants {

struct RowColumns {
  std::vector<std::string> matching = {};  // inputs: rows match if they are equal in all of these
  std::vector<std::string> naming = {};    // of these, those that differ between rows
  std::vector<std::string> measured = {};  // results
  std::vector<std::string> differences = {};  // "algorithm: ring_allreduce -> tree_allreduce"
};

// The columns of two runs.  An input that differs between them tells what was changed.
RowColumns choose_columns(std::span<const Row> before, std::span<const Row> after);

// The columns by which the rows of several runs match that were asked for the same: what differs
// between runs is no input unless rows are told apart by it alone, and a real number that is the
// same in all of them is one if rows are not told apart without.  It has no differences.
RowColumns common_columns(std::span<const std::vector<Row>> runs);

// Keeps of the naming columns the first ones, in the order of the rows' cells, that tell these rows
// apart as well as all of them do.
void shorten_names(std::span<const Row> rows, RowColumns& columns);

// A text that is equal for rows that match.
std::string matching_key(const Row& row, const RowColumns& columns);
// "n_elem 4096, op sum"; empty if nothing differs between rows.
std::string row_name(const Row& row, const RowColumns& columns);
// "n_elem 4096, sum": a text stands for itself.
std::string short_row_name(const Row& row, const RowColumns& columns);

// The number in a column; nullopt if the row has none there.
std::optional<double> number_in_row(const Row& row, const std::string& column);

bool is_time_column(const std::string& column);
// True if a column has numbers that were measured.
bool holds_numbers(std::span<const Row> before, std::span<const Row> after,
                   const std::string& column);

}  // namespace kernbench::benches::variants
