#include "benches/tensor_parallel/expected.h"

#include <algorithm>
#include <cmath>

#include "sim_engine/base/check.h"

namespace kernbench::benches::tensor_parallel {

Comparison compare(std::span<const float> found, const Expected& expected, const Part& part) {
  KB_CHECK(static_cast<std::int64_t>(found.size()) == part.rows * part.columns,
           "{} elements of {} x {}", found.size(), part.rows, part.columns);
  Comparison comparison;
  double values = 0;
  double errors = 0;
  double bounds = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t row = part.row + at / part.columns;
    const std::int64_t column = part.column + at % part.columns;
    const double value = expected.value[static_cast<std::size_t>(row * expected.columns + column)];
    const double bound = expected.bound_of(column);
    const double error = std::abs(found[i] - value);
    if (!(error <= bound)) ++comparison.wrong;
    if (error > 0) comparison.worst = std::max(comparison.worst, error / bound);
    values += value * value;
    errors += error * error;
    bounds += bound * bound;
  }
  if (values > 0) comparison.error = std::sqrt(errors / values);
  if (values > 0) comparison.bound = std::sqrt(bounds / values);
  return comparison;
}

}  // namespace kernbench::benches::tensor_parallel
