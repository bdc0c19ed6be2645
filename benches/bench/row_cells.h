// Access to the cells of rows, for figures and tables.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "benches/bench/row.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches {

// The number in a column.  REQUIRES: the column is there and holds a number
double number_in(const Row& row, std::string_view column);
// The number in a column; nullopt if the cell is null.  REQUIRES: the column is there
std::optional<double> number_or_null(const Row& row, std::string_view column);
// The time in a column of nanoseconds, to the picosecond.  REQUIRES: as number_in()
Time time_in(const Row& row, std::string_view column);
// The text in a column.  REQUIRES: the column is there and holds a text
const std::string& text_in(const Row& row, std::string_view column);

}  // namespace kernbench::benches
