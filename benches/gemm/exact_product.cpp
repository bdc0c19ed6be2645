#include "benches/gemm/exact_product.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "benches/bench/exact_integers.h"
#include "sim_engine/base/check.h"

namespace kernbench::benches::gemm {

namespace {

// -1, 0 or 1, of element `index` of a matrix.
std::int64_t draw(std::uint32_t seed, std::uint32_t matrix, std::int64_t index) {
  const auto low = static_cast<std::uint32_t>(index);
  const auto high = static_cast<std::uint32_t>(index >> 32);
  return static_cast<std::int64_t>(scrambled(low ^ scrambled(high ^ scrambled(seed + matrix))) %
                                   3) -
         1;
}

int significand_bits(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 11;
    case DType::bf16:
      return 8;
    default:
      return 24;
  }
}

}  // namespace

float rounded_to(DType dtype, std::int64_t integer) {
  const std::uint64_t magnitude = static_cast<std::uint64_t>(std::llabs(integer));
  const int extra = static_cast<int>(std::bit_width(magnitude)) - significand_bits(dtype);
  std::uint64_t rounded = magnitude;
  if (extra > 0) {
    const std::uint64_t unit = std::uint64_t{1} << extra;
    const std::uint64_t rest = magnitude % unit;
    rounded = magnitude - rest;
    const bool is_odd = (rounded / unit) % 2 == 1;
    if (rest > unit / 2 || (rest == unit / 2 && is_odd)) rounded += unit;
  }
  const bool overflows = dtype == DType::f16 && rounded > 65504;
  const float value =
      overflows ? std::numeric_limits<float>::infinity() : static_cast<float>(rounded);
  return integer < 0 ? -value : value;
}

ExactProduct::ExactProduct(const sim::GemmSize& size, DType dtype, std::uint64_t seed)
    : size_(size), dtype_(dtype), seed_(scrambled_seed(seed)) {
  KB_CHECK(size.m > 0 && size.n > 0 && size.k > 0 && size.k <= kMostK, "a product of {}, {}, {}",
           size.m, size.n, size.k);
  add_up();
}

std::int64_t ExactProduct::u(std::int64_t row, std::int64_t i) const {
  return draw(seed_, 1, row * kRank + i);
}
std::int64_t ExactProduct::v(std::int64_t i, std::int64_t column) const {
  return draw(seed_, 2, i * size_.k + column);
}
std::int64_t ExactProduct::b(std::int64_t row, std::int64_t column) const {
  return draw(seed_, 3, row * size_.n + column);
}

void ExactProduct::add_up() {
  const auto n = static_cast<std::size_t>(size_.n);
  v_times_b_.assign(kRank * n, 0);
  std::vector<std::int32_t> row_of_b(n);
  for (std::int64_t p = 0; p < size_.k; ++p) {
    for (std::size_t j = 0; j < n; ++j) {
      row_of_b[j] = static_cast<std::int32_t>(b(p, static_cast<std::int64_t>(j)));
    }
    for (std::int64_t i = 0; i < kRank; ++i) {
      const auto factor = static_cast<std::int32_t>(v(i, p));
      std::int32_t* const sums = v_times_b_.data() + static_cast<std::size_t>(i) * n;
      for (std::size_t j = 0; j < n; ++j) sums[j] += factor * row_of_b[j];
    }
  }
}

std::vector<float> ExactProduct::rows_of_a(std::int64_t begin, std::int64_t count) const {
  const auto k = static_cast<std::size_t>(size_.k);
  std::vector<std::int32_t> v_rows(kRank * k);
  for (std::size_t e = 0; e < v_rows.size(); ++e) {
    v_rows[e] = static_cast<std::int32_t>(draw(seed_, 2, static_cast<std::int64_t>(e)));
  }
  std::vector<float> elements(static_cast<std::size_t>(count) * k, 0.0F);
  for (std::int64_t row = 0; row < count; ++row) {
    float* const target = elements.data() + static_cast<std::size_t>(row) * k;
    for (std::int64_t i = 0; i < kRank; ++i) {
      const auto factor = static_cast<float>(u(begin + row, i));
      const std::int32_t* const source = v_rows.data() + static_cast<std::size_t>(i) * k;
      for (std::size_t p = 0; p < k; ++p) target[p] += factor * static_cast<float>(source[p]);
    }
  }
  return elements;
}

std::vector<float> ExactProduct::columns_of_b(std::int64_t begin, std::int64_t count) const {
  std::vector<float> elements;
  elements.reserve(static_cast<std::size_t>(size_.k * count));
  for (std::int64_t row = 0; row < size_.k; ++row) {
    for (std::int64_t column = begin; column < begin + count; ++column) {
      elements.push_back(static_cast<float>(b(row, column)));
    }
  }
  return elements;
}

std::int64_t ExactProduct::element(std::int64_t row, std::int64_t column) const {
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < kRank; ++i) {
    sum += u(row, i) * v_times_b_[static_cast<std::size_t>(i * size_.n + column)];
  }
  return sum;
}

std::int64_t ExactProduct::count_wrong(const std::vector<float>& found, std::int64_t row,
                                       std::int64_t column, std::int64_t columns) const {
  std::int64_t wrong = 0;
  const auto rows = columns == 0 ? 0 : static_cast<std::int64_t>(found.size()) / columns;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(columns));
  const float* next = found.data();
  for (std::int64_t r = 0; r < rows; ++r) {
    std::ranges::fill(sums, 0);
    for (std::int64_t i = 0; i < kRank; ++i) {
      const std::int64_t factor = u(row + r, i);
      const std::int32_t* const source = v_times_b_.data() + i * size_.n + column;
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += factor * source[j];
    }
    for (const std::int64_t sum : sums) wrong += *next++ != rounded_to(dtype_, sum);
  }
  return wrong;
}

}  // namespace kernbench::benches::gemm
