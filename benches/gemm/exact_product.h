// Integer matrices and their product by plain integer sums: the reference for checking a GEMM.
//
// It is independent of the code under test.  a = u v with small integers u [m, 8] and v [8, k], so
// that a b = u (v b) takes 8 (k n + m n) sums instead of m n k, and every element of a large
// product is checked too.  b is any small integers.  All partial sums are exact in f32 up to k =
// 2^21, in any order; the result is rounded once, by integers as well.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::benches::gemm {

class ExactProduct {
 public:
  static constexpr std::int64_t kRank = 8;
  static constexpr std::int64_t kMostK = std::int64_t{1} << 21;

  // REQUIRES: sizes are positive, size.k <= kMostK
  ExactProduct(const sim::GemmSize& size, DType dtype, std::uint64_t seed);

  // Rows [begin, begin + count) of a, and columns [begin, begin + count) of b, stored row by row.
  std::vector<float> rows_of_a(std::int64_t begin, std::int64_t count) const;
  std::vector<float> columns_of_b(std::int64_t begin, std::int64_t count) const;

  // The number of elements of `found` that differ from the product, rounded to the type.  `found`
  // is a block of the product, row by row, whose first element is at (row, column).
  std::int64_t count_wrong(const std::vector<float>& found, std::int64_t row, std::int64_t column,
                           std::int64_t columns) const;

  // An element of the product, not rounded.
  std::int64_t element(std::int64_t row, std::int64_t column) const;

 private:
  std::int64_t u(std::int64_t row, std::int64_t i) const;
  std::int64_t v(std::int64_t i, std::int64_t column) const;
  std::int64_t b(std::int64_t row, std::int64_t column) const;
  void add_up();

  const sim::GemmSize size_;
  const DType dtype_;
  const std::uint32_t seed_;
  std::vector<std::int32_t> v_times_b_;  // [kRank, n]
};

// The integer rounded to the type, to nearest, ties to even; infinity beyond the type's largest
// number.
float rounded_to(DType dtype, std::int64_t integer);

}  // namespace kernbench::benches::gemm
