// Tables of rows for people: a column shows one cell of each row.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "benches/bench/console.h"
#include "benches/bench/row.h"

namespace kernbench::benches {

struct TableColumn {
  std::string_view title;
  std::string_view unit;
  int width = 0;          // negative: to the left; 0: to the left, and the last column
  std::string_view cell;  // the column of the row
  double scale = 1;       // of numbers that are not whole
  int digits = -1;        // behind their point; -1: as many as are needed
};

// Returns what a column takes of a line; of text without a width, the room that it is given.
std::size_t compute_width(const TableColumn& column);

// The columns of tables at most kLineWidth wide, each of which begins with the first `keys` ones.
std::vector<std::vector<TableColumn>> fold(std::span<const TableColumn> columns, std::size_t keys);

// Two lines: titles and units.
std::string table_head(std::span<const TableColumn> columns);

// One line.  `missing` stands for a cell that is null; a "#wrong" other than 0 is alarming.
// REQUIRES: the row has all cells
std::string table_line(std::span<const TableColumn> columns, const Row& row, const Console& console,
                       std::string_view missing = "-");

}  // namespace kernbench::benches
