// The expected elements of a matrix, and the bounds of their errors.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kernbench::benches::tensor_parallel {

// Elements are stored row by row.  Blocks of columns use the bounds in turn, starting again after
// the last; without bounds, elements must be equal.
struct Expected {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> value = {};
  std::int64_t block = 0;  // columns of one
  std::vector<double> bound = {};

  double bound_of(std::int64_t column) const {
    return bound.empty() ? 0 : bound[static_cast<std::size_t>(column / block) % bound.size()];
  }
};

// A rectangle of a matrix.
struct Part {
  std::int64_t row = 0;
  std::int64_t rows = 0;
  std::int64_t column = 0;
  std::int64_t columns = 0;
};

// A comparison of found elements with the expected ones.
struct Comparison {
  std::int64_t wrong = 0;  // beyond their bound, or NaN
  double worst = 0;        // the largest error over its bound
  // The root mean square of the errors, over that of the values.
  double error = 0;
  double bound = 0;
};

// Compares `found` with a part of `expected`.
Comparison compare(std::span<const float> found, const Expected& expected, const Part& part);

}  // namespace kernbench::benches::tensor_parallel
