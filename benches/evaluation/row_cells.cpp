#include "benches/evaluation/row_cells.h"

#include "sim_engine/base/check.h"

namespace kernbench::benches {

double number_in(const Row& row, std::string_view column) {
  const Cell* cell = row.find(column);
  KB_CHECK(cell != nullptr, "no column '{}'", column);
  if (const auto* integer = std::get_if<std::int64_t>(cell)) return static_cast<double>(*integer);
  return std::get<double>(*cell);
}

const std::string& text_in(const Row& row, std::string_view column) {
  const Cell* cell = row.find(column);
  KB_CHECK(cell != nullptr, "no column '{}'", column);
  return std::get<std::string>(*cell);
}

}  // namespace kernbench::benches
