// The reference of the GEMM benches, against plain loops.

#include "benches/gemm/exact_product.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

namespace kernbench::benches::exact_product_test {
namespace {

constexpr sim::GemmSize kSize{37, 29, 53};

std::int64_t sum_of(const gemm::ExactProduct& product, const sim::GemmSize& size, std::int64_t row,
                    std::int64_t column) {
  const std::vector<float> a = product.rows_of_a(row, 1);
  const std::vector<float> b = product.columns_of_b(column, 1);
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < size.k; ++i) {
    sum += static_cast<std::int64_t>(a[static_cast<std::size_t>(i)]) *
           static_cast<std::int64_t>(b[static_cast<std::size_t>(i)]);
  }
  return sum;
}

TEST_CASE("every element is the sum over a's row and b's column", "[exact_product]") {
  const gemm::ExactProduct product(kSize, DType::f16, 7);
  std::set<std::int64_t> sums;
  for (std::int64_t row = 0; row < kSize.m; ++row) {
    for (std::int64_t column = 0; column < kSize.n; ++column) {
      const std::int64_t sum = sum_of(product, kSize, row, column);
      CHECK(product.element(row, column) == sum);
      sums.insert(sum);
    }
  }
  CHECK(sums.size() > 20);  // they do differ
}

TEST_CASE("parts are those of the whole, another seed has other elements", "[exact_product]") {
  const gemm::ExactProduct product(kSize, DType::f16, 7);
  const std::vector<float> a = product.rows_of_a(0, kSize.m);
  const std::vector<float> b = product.columns_of_b(0, kSize.n);
  CHECK(product.rows_of_a(3, 2) == std::vector(a.begin() + 3 * 53, a.begin() + 5 * 53));
  const std::vector<float> columns = product.columns_of_b(11, 2);
  for (std::size_t row = 0; row < 53; ++row) {
    CHECK(columns[2 * row] == b[row * 29 + 11]);
    CHECK(columns[2 * row + 1] == b[row * 29 + 12]);
  }
  CHECK(gemm::ExactProduct(kSize, DType::f16, 8).rows_of_a(0, kSize.m) != a);
  for (const float element : a) CHECK(std::abs(element) <= gemm::ExactProduct::kRank);
}

TEST_CASE("each element that differs is counted, in any part", "[exact_product]") {
  const gemm::ExactProduct product(kSize, DType::f32, 1);
  std::vector<float> part;  // [2, 3] at (30, 20)
  for (std::int64_t row = 30; row < 32; ++row) {
    for (std::int64_t column = 20; column < 23; ++column) {
      part.push_back(static_cast<float>(product.element(row, column)));
    }
  }
  CHECK(product.count_wrong(part, 30, 20, 3) == 0);
  for (std::size_t changed = 0; changed < part.size(); ++changed) {
    std::vector<float> wrong = part;
    wrong[changed] += 1;
    CHECK(product.count_wrong(wrong, 30, 20, 3) == 1);
  }
  std::fill(part.begin(), part.end(), std::numeric_limits<float>::quiet_NaN());
  CHECK(product.count_wrong(part, 30, 20, 3) == 6);
}

TEST_CASE("integers are rounded once, to nearest, ties to even", "[exact_product]") {
  CHECK(gemm::rounded_to(DType::f16, 0) == 0);
  CHECK(gemm::rounded_to(DType::f16, 2048) == 2048);
  CHECK(gemm::rounded_to(DType::f16, 2049) == 2048);
  CHECK(gemm::rounded_to(DType::f16, 2051) == 2052);
  CHECK(gemm::rounded_to(DType::f16, -2051) == -2052);
  CHECK(gemm::rounded_to(DType::f16, 65'519) == 65'504);
  CHECK(gemm::rounded_to(DType::f16, 65'520) == std::numeric_limits<float>::infinity());
  CHECK(gemm::rounded_to(DType::bf16, 256) == 256);
  CHECK(gemm::rounded_to(DType::bf16, 257) == 256);
  CHECK(gemm::rounded_to(DType::bf16, 258) == 258);
  CHECK(gemm::rounded_to(DType::bf16, 259) == 260);
  CHECK(gemm::rounded_to(DType::bf16, 70'000) == 70'144);
  CHECK(gemm::rounded_to(DType::f32, (1 << 24) + 1) == 1 << 24);
  CHECK(gemm::rounded_to(DType::f32, (1 << 24) + 3) == (1 << 24) + 4);
}

}  // namespace
}  // namespace kernbench::benches::exact_product_test
