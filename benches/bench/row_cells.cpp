#include "benches/bench/row_cells.h"

#include <cmath>
#include <variant>

#include "benches/bench/cell.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches {

std::optional<double> number_or_null(const Row& row, std::string_view column) {
  const Cell* cell = row.find(column);
  KB_CHECK(cell != nullptr, "no column '{}'", column);
  if (std::holds_alternative<std::nullptr_t>(*cell)) return std::nullopt;
  if (const auto* integer = std::get_if<std::int64_t>(cell)) return static_cast<double>(*integer);
  return std::get<double>(*cell);
}

double number_in(const Row& row, std::string_view column) {
  return number_or_null(row, column).value();
}

Time time_in(const Row& row, std::string_view column) {
  return Time{std::llround(number_in(row, column) * 1e3)};
}

const std::string& text_in(const Row& row, std::string_view column) {
  const Cell* cell = row.find(column);
  KB_CHECK(cell != nullptr, "no column '{}'", column);
  return std::get<std::string>(*cell);
}

}  // namespace kernbench::benches
