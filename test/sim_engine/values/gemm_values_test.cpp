// Matrix products of the evaluation against plain loops, which share nothing with it.

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::gemm_values_test {

namespace {

std::size_t count_of(std::int64_t rows, std::int64_t columns) {
  return static_cast<std::size_t>(rows * columns);
}

Elements integers(std::size_t count, int limit, unsigned seed) {
  std::mt19937 random(seed);
  Elements elements(count);
  for (float& element : elements) {
    element = static_cast<float>(static_cast<int>(random() % (2 * limit + 1)) - limit);
  }
  return elements;
}

// Between -1 and 1, values of the type.
Elements fractions(DType dtype, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Elements elements(count);
  for (float& element : elements) {
    const float drawn = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 10000;
    element = soft_float::round_to(dtype, drawn);
  }
  return elements;
}

struct Sums {
  double signed_sum = 0;
  double magnitudes = 0;  // of the summands
};

Sums sums_at(const GemmSize& size, const Elements& a, const Elements& b, std::int64_t row,
             std::int64_t column) {
  Sums sums;
  for (std::int64_t i = 0; i < size.k; ++i) {
    const double product =
        static_cast<double>(a[count_of(row, size.k) + static_cast<std::size_t>(i)]) *
        static_cast<double>(b[count_of(i, size.n) + static_cast<std::size_t>(column)]);
    sums.signed_sum += product;
    sums.magnitudes += std::abs(product);
  }
  return sums;
}

struct GemmUnderTest : ExecutorUnderTest {
  Elements gemm(const GemmSize& size, DType in, const Elements& a, const Elements& b, DType out,
                const Elements& accumulator = {}) {
    return elements(store.gemm(size, store.literal(in, a), store.literal(in, b),
                               store.literal(DType::f32, accumulator), out));
  }
};

constexpr std::array<GemmSize, 13> kSizes = {{{1, 1, 1},
                                              {1, 1, 7},
                                              {5, 1, 3},
                                              {1, 9, 3},
                                              {7, 5, 1},
                                              {16, 16, 16},
                                              {33, 17, 65},
                                              {256, 256, 512},
                                              {257, 3, 513},
                                              {2, 258, 600},
                                              {1, 700, 1100},
                                              {700, 1, 1100},
                                              {300, 270, 530}}};

}  // namespace

TEST_CASE("a product of small integers is exact", "[gemm][executor][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const DType out = GENERATE(DType::f16, DType::f32);
  for (const GemmSize& size : kSizes) {
    // Sums of up to 1100 products of at most 1: below 2^11, where f16 holds every integer.
    const Elements a = integers(count_of(size.m, size.k), 1, 1);
    const Elements b = integers(count_of(size.k, size.n), 1, 2);
    GemmUnderTest dut;
    const Elements c = dut.gemm(size, dtype, a, b, out);
    std::size_t wrong = 0;
    for (std::int64_t row = 0; row < size.m; ++row) {
      for (std::int64_t column = 0; column < size.n; ++column) {
        const float found = c[count_of(row, size.n) + static_cast<std::size_t>(column)];
        wrong += static_cast<double>(found) != sums_at(size, a, b, row, column).signed_sum;
      }
    }
    INFO(size.m << " " << size.n << " " << size.k);
    CHECK(wrong == 0);
  }
}

TEST_CASE("a product of fractions is within the bound of its rounding errors",
          "[gemm][executor][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const DType out = GENERATE(DType::f16, DType::bf16, DType::f32);
  const double u = out == DType::f32 ? 0x1p-24 : out == DType::f16 ? 0x1p-11 : 0x1p-8;
  const double underflow = out == DType::f16 ? 0x1p-25 : 0;
  for (const GemmSize& size : kSizes) {
    const Elements a = fractions(dtype, count_of(size.m, size.k), 3);
    const Elements b = fractions(dtype, count_of(size.k, size.n), 4);
    GemmUnderTest dut;
    const Elements c = dut.gemm(size, dtype, a, b, out);
    std::size_t wrong = 0;
    for (std::int64_t row = 0; row < size.m; ++row) {
      for (std::int64_t column = 0; column < size.n; ++column) {
        const Sums exact = sums_at(size, a, b, row, column);
        // RELIABILITY.md 4; k instead of k - 1 covers products of f32, which are rounded too.
        const double bound = (1 + u) * static_cast<double>(size.k) * 0x1p-24 * exact.magnitudes +
                             u * std::abs(exact.signed_sum) + underflow;
        const double found = c[count_of(row, size.n) + static_cast<std::size_t>(column)];
        wrong += std::abs(found - exact.signed_sum) > bound;
      }
    }
    INFO(size.m << " " << size.n << " " << size.k);
    CHECK(wrong == 0);
  }
}

TEST_CASE("the accumulator is added before the only rounding", "[gemm][executor]") {
  GemmUnderTest dut;
  // 2048 + 1 is a tie in f16 and goes back to 2048; 2048 + 1 + 1 is exact.
  CHECK(dut.gemm({1, 1, 1}, DType::f16, {1}, {1}, DType::f16, {2048}) == Elements{2048});
  CHECK(dut.gemm({1, 1, 2}, DType::f16, {1, 1}, {1, 1}, DType::f16, {2048}) == Elements{2050});
  CHECK(dut.gemm({1, 1, 1}, DType::f16, {1}, {1}, DType::f32, {2048}) == Elements{2049});
  // Products of f16 that f16 does not hold are not rounded either.
  CHECK(dut.gemm({1, 1, 1}, DType::f16, {45}, {91}, DType::f32) == Elements{4095});
}

TEST_CASE("a chain of accumulations is the product of the whole, for integers",
          "[gemm][executor]") {
  const GemmSize whole{40, 30, 96};
  const Elements a = integers(count_of(40, 96), 8, 5);
  const Elements b = integers(count_of(96, 30), 8, 6);
  GemmUnderTest dut;
  Value sum = dut.store.constant(DType::f32, 40 * 30, 0);
  for (std::int64_t step = 0; step < 3; ++step) {
    Elements a_part;
    for (std::int64_t row = 0; row < 40; ++row) {
      const auto first = a.begin() + row * 96 + step * 32;
      a_part.insert(a_part.end(), first, first + 32);
    }
    const Elements b_part(b.begin() + step * 32 * 30, b.begin() + (step + 1) * 32 * 30);
    sum = dut.store.gemm({40, 30, 32}, dut.store.literal(DType::f16, a_part),
                         dut.store.literal(DType::f16, b_part), sum, DType::f32);
  }
  CHECK(dut.elements(sum) == dut.gemm(whole, DType::f16, a, b, DType::f32));
  CHECK(dut.executor.computed_count() == 4);
}

TEST_CASE("an accumulator that others refer to stays as it was", "[gemm][executor]") {
  GemmUnderTest dut;
  const Value ones = dut.store.literal(DType::f32, Elements{1, 1, 1, 1});
  const Value before = dut.store.math(MathOp::add, ones, ones);
  const Value after = dut.store.gemm({2, 2, 2}, ones, ones, before, DType::f32);
  CHECK(dut.elements(after) == Elements{4, 4, 4, 4});
  CHECK(dut.elements(before) == Elements{2, 2, 2, 2});
  // Nor is it changed when it is an operand too.
  const Value square = dut.store.gemm({2, 2, 2}, after, after, after, DType::f32);
  CHECK(dut.elements(square) == Elements{36, 36, 36, 36});
  CHECK(dut.elements(after) == Elements{4, 4, 4, 4});
}

TEST_CASE("operands may be constants, and parts of other values", "[gemm][executor]") {
  GemmUnderTest dut;
  const Value a = dut.store.literal(DType::bf16, Elements{9, 1, 2, 3, 4, 9});
  const Value twos = dut.store.constant(DType::bf16, 6, 2);
  const Value product =
      dut.store.gemm({2, 3, 2}, dut.store.slice(a, 1, 4), twos, Value{}, DType::f32);
  CHECK(dut.elements(product) == Elements{6, 6, 6, 14, 14, 14});
}

TEST_CASE("types of the operands may differ", "[gemm][executor]") {
  GemmUnderTest dut;
  const Value product = dut.store.gemm({1, 2, 2}, dut.store.literal(DType::f16, Elements{1, 2}),
                                       dut.store.literal(DType::f32, Elements{1, 2, 3, 0x1p-20F}),
                                       Value{}, DType::f32);
  CHECK(dut.elements(product) == Elements{7, 2 + 0x1p-19F});
}

TEST_CASE("the bits do not depend on where in memory the operands lie", "[gemm][executor]") {
  for (const GemmSize& size : kSizes) {
    const Elements a = fractions(DType::f32, count_of(size.m, size.k), 7);
    const Elements b = fractions(DType::f32, count_of(size.k, size.n), 8);
    GemmUnderTest dut;
    const Elements expected = dut.gemm(size, DType::f32, a, b, DType::f32);
    for (const std::int64_t shift : {1, 3, 8}) {
      Elements shifted_a(static_cast<std::size_t>(shift), 0.5F);
      Elements shifted_b(static_cast<std::size_t>(shift + 2), 0.25F);
      shifted_a.insert(shifted_a.end(), a.begin(), a.end());
      shifted_b.insert(shifted_b.end(), b.begin(), b.end());
      const Value product = dut.store.gemm(
          size, dut.store.slice(dut.store.literal(DType::f32, shifted_a), shift, size.m * size.k),
          dut.store.slice(dut.store.literal(DType::f32, shifted_b), shift + 2, size.k * size.n),
          Value{}, DType::f32);
      CHECK(dut.elements(product) == expected);
    }
  }
}

TEST_CASE("sums over nothing are the accumulator, products of nothing are nothing",
          "[gemm][executor]") {
  GemmUnderTest dut;
  CHECK(dut.gemm({2, 1, 0}, DType::f16, {}, {}, DType::f32) == Elements{0, 0});
  CHECK(dut.gemm({2, 1, 0}, DType::f16, {}, {}, DType::f16, {3, 4}) == Elements{3, 4});
  CHECK(dut.gemm({0, 3, 2}, DType::f16, {}, Elements(6, 1), DType::f32).empty());
}

TEST_CASE("what is not a number or infinite spreads as IEEE 754 says", "[gemm][executor]") {
  GemmUnderTest dut;
  const Elements c = dut.gemm({3, 1, 2}, DType::f16, {INFINITY, 1, INFINITY, -INFINITY, NAN, 1},
                              {1, 1}, DType::f32);
  CHECK(c[0] == INFINITY);
  CHECK(std::isnan(c[1]));
  CHECK(std::isnan(c[2]));
  CHECK(dut.gemm({1, 1, 2}, DType::f16, {65504, 65504}, {1, 1}, DType::f16)[0] == INFINITY);
  CHECK(dut.gemm({1, 1, 2}, DType::f16, {65504, 65504}, {1, 1}, DType::f32)[0] == 131008);
}

TEST_CASE("operands that only a product referred to are freed with it", "[gemm][executor]") {
  GemmUnderTest dut;
  const Value product =
      dut.store.gemm({8, 8, 8}, dut.store.literal(DType::f16, Elements(64, 1)),
                     dut.store.literal(DType::f16, Elements(64, 1)), Value{}, DType::f32);
  dut.elements(product);
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.store.live_bytes() == 64 * 4);
}

}  // namespace kernbench::sim::gemm_values_test
