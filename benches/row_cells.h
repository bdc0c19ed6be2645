// What figures and tables read of rows.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "benches/row.h"

namespace kernbench::benches {

// The number in a column.  REQUIRES: there is one
double number_in(const Row& row, std::string_view column);
// Nothing if it is null.  REQUIRES: there is the column
std::optional<double> number_or_null(const Row& row, std::string_view column);
// REQUIRES: there is a text
const std::string& text_in(const Row& row, std::string_view column);

}  // namespace kernbench::benches
