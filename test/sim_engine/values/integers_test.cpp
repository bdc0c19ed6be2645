// Values of integers, of bool and of the 8-bit types.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "sim_engine/values/element_format.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::integers_test {

namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct IntegersUnderTest : ExecutorUnderTest {
  Value value(DType dtype, const Integers& elements) {
    return store.literal(dtype, std::span<const std::int64_t>(elements));
  }
  Integers integers(const Value& value) {
    Integers out(static_cast<std::size_t>(value.element_count()));
    executor.read(value, std::span(out));
    return out;
  }
  Integers math(MathOp op, const Integers& a, const Integers& b) {
    return integers(store.math(op, value(DType::i64, a), value(DType::i64, b)));
  }
  Integers reduced(AxisOp op, DType dtype, const Integers& a, const AxisForm& form) {
    return integers(store.along_axis(op, value(dtype, a), form));
  }
};

// The numbers of an 8-bit type that are not NaN, from the definition of its fields.
std::vector<std::pair<int, double>> numbers_of(DType dtype) {
  const int mantissa_bits = dtype == DType::f8e4m3fn ? 3 : 2;
  const int bias = dtype == DType::f8e4m3fn ? 7 : 15;
  const int last = dtype == DType::f8e4m3fn ? 0x7e : 0x7b;
  std::vector<std::pair<int, double>> numbers;
  for (int bits = 0; bits <= last; ++bits) {
    const int exponent = bits >> mantissa_bits;
    const double fraction = static_cast<double>(bits % (1 << mantissa_bits)) / (1 << mantissa_bits);
    numbers.emplace_back(bits, exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                             : std::ldexp(1 + fraction, exponent - bias));
  }
  return numbers;
}

}  // namespace

TEST_CASE("arithmetic of integers is exact modulo 2^64", "[executor][integers]") {
  IntegersUnderTest dut;
  const Integers a{kMost, kLeast, 3, -5, (std::int64_t{1} << 53) + 1};
  const Integers b{1, -1, -4, -5, 1};
  CHECK(dut.math(MathOp::add, a, b) == Integers{kLeast, kMost, -1, -10, (1LL << 53) + 2});
  CHECK(dut.math(MathOp::subtract, a, b) == Integers{kMost - 1, kLeast + 1, 7, 0, 1LL << 53});
  CHECK(dut.math(MathOp::multiply, a, b) == Integers{kMost, kLeast, -12, 25, (1LL << 53) + 1});
  CHECK(dut.math(MathOp::maximum, a, b) == Integers{kMost, -1, 3, -5, (1LL << 53) + 1});
  CHECK(dut.math(MathOp::minimum, a, b) == Integers{1, kLeast, -4, -5, 1});
  CHECK(dut.math(MathOp::less, a, b) == Integers{0, 1, 0, 0, 0});
  CHECK(dut.math(MathOp::less_equal, a, b) == Integers{0, 1, 0, 1, 0});
  CHECK(dut.math(MathOp::greater, a, b) == Integers{1, 0, 1, 0, 1});
  CHECK(dut.math(MathOp::greater_equal, a, b) == Integers{1, 0, 1, 1, 1});
  CHECK(dut.math(MathOp::equal, a, b) == Integers{0, 0, 0, 1, 0});
  CHECK(dut.math(MathOp::not_equal, a, b) == Integers{1, 1, 1, 0, 1});
  CHECK(dut.math(MathOp::bit_and, {12, -1}, {10, 7}) == Integers{8, 7});
  CHECK(dut.math(MathOp::bit_or, {12, -8}, {10, 7}) == Integers{14, -1});
  CHECK(dut.math(MathOp::bit_xor, {12, -1}, {10, 7}) == Integers{6, -8});
  const auto of_one = [&](MathOp op) {
    return dut.integers(dut.store.math(op, DType::i64, std::array{dut.value(DType::i64, a)}));
  };
  CHECK(of_one(MathOp::negate) == Integers{-kMost, kLeast, -3, 5, -(1LL << 53) - 1});
  CHECK(of_one(MathOp::absolute) == Integers{kMost, kLeast, 3, 5, (1LL << 53) + 1});
  const std::array three{dut.value(DType::i64, {0, 5, 9}), dut.value(DType::i64, {2, 2, 2}),
                         dut.value(DType::i64, {7, 7, 7})};
  CHECK(dut.integers(dut.store.math(MathOp::clamp, DType::i64, three)) == Integers{2, 5, 7});
  CHECK(dut.integers(dut.store.math(MathOp::fma, DType::i64, three)) == Integers{7, 17, 25});
  CHECK(dut.integers(dut.store.math(MathOp::select, DType::i64, three)) == Integers{7, 2, 2});
}

TEST_CASE("a mask of any type chooses among integers", "[executor][integers]") {
  IntegersUnderTest dut;
  const std::array operands{dut.store.literal(DType::f16, Elements{0.5F, 0, kNan}),
                            dut.value(DType::i64, {kMost, kMost, kMost}),
                            dut.value(DType::i64, {kLeast, kLeast, kLeast})};
  CHECK(dut.integers(dut.store.math(MathOp::select, DType::i64, operands)) ==
        Integers{kMost, kLeast, kMost});
}

TEST_CASE("i32 wraps, and bool is whether a number is not 0", "[executor][integers]") {
  IntegersUnderTest dut;
  const Value big = dut.value(DType::i32, {2147483647, -2147483648, 5});
  CHECK(dut.integers(dut.store.math(MathOp::add, big, big)) == Integers{-2, 0, 10});
  const auto converted = [&](DType to, const Value& value) {
    return dut.integers(dut.store.math(MathOp::convert, to, std::array{value}));
  };
  CHECK(converted(DType::i32, dut.value(DType::i64, {1LL << 32, (1LL << 31) + 1})) ==
        Integers{0, -2147483647});
  const Value truths = dut.value(DType::boolean, {2, 0, -1});
  CHECK(dut.integers(truths) == Integers{1, 0, 1});
  CHECK(dut.integers(dut.store.math(MathOp::add, truths, truths)) == Integers{1, 0, 1});
  CHECK(converted(DType::i64, truths) == Integers{1, 0, 1});
}

TEST_CASE("numbers become integers towards zero, the largest there is, and NaN 0",
          "[executor][integers]") {
  IntegersUnderTest dut;
  const Value numbers = dut.store.literal(
      DType::f32, Elements{1.9F, -1.9F, 0.4F, 3e9F, -3e9F, 1e30F, -kInfinity, kNan});
  const auto converted = [&](DType to) {
    return dut.integers(dut.store.math(MathOp::convert, to, std::array{numbers}));
  };
  CHECK(converted(DType::i32) ==
        Integers{1, -1, 0, 2147483647, -2147483648, 2147483647, -2147483648, 0});
  CHECK(converted(DType::i64) ==
        Integers{1, -1, 0, 3'000'000'000, -3'000'000'000, kMost, kLeast, 0});
  CHECK(converted(DType::boolean) == Integers{1, 1, 1, 1, 1, 1, 1, 1});
  CHECK(dut.integers(dut.store.constant(DType::i64, 2, -kInfinity)) == Integers{kLeast, kLeast});
  CHECK(dut.integers(dut.store.constant(DType::i64, 1, kMost)) == Integers{kMost});
  const Value whole = dut.value(DType::i64, {(1 << 24) + 1, (1 << 24) + 3, kMost});
  CHECK(dut.elements(dut.store.math(MathOp::convert, DType::f32, std::array{whole})) ==
        Elements{0x1p24F, 0x1p24F + 4, 0x1p63F});
}

TEST_CASE("integers are reduced, repeated, turned and moved exactly", "[executor][integers]") {
  const DType dtype = GENERATE(DType::i32, DType::i64, DType::boolean);
  IntegersUnderTest dut;
  Integers a;
  for (std::int64_t i = 0; i < 2 * 37 * 3; ++i) {
    a.push_back(dtype == DType::boolean ? i % 3 / 2 : i * 12'345 % 7'919 - 3'000);
  }
  const AxisForm form{2, 37, 3};
  Integers sums;
  Integers most;
  Integers turned;
  for (std::size_t outer = 0; outer < 2; ++outer) {
    for (std::size_t inner = 0; inner < 3; ++inner) {
      std::int64_t sum = 0;
      std::int64_t largest = kLeast;
      for (std::size_t i = 0; i < 37; ++i) {
        const std::int64_t element = a[(outer * 37 + i) * 3 + inner];
        sum += element;
        largest = std::max(largest, element);
        turned.push_back(element);
      }
      sums.push_back(dtype == DType::boolean ? (sum != 0 ? 1 : 0) : sum);
      most.push_back(largest);
    }
  }
  CHECK(dut.reduced(AxisOp::sum, dtype, a, form) == sums);
  CHECK(dut.reduced(AxisOp::maximum, dtype, a, form) == most);
  CHECK(dut.reduced(AxisOp::transpose, dtype, a, form) == turned);
  CHECK(dut.reduced(AxisOp::broadcast, dtype, {1, 0}, {2, 3, 1}) == Integers{1, 1, 1, 0, 0, 0});
  const RegionId region = dut.store.create_region(dtype, 4);
  CHECK(dut.integers(dut.store.load(region, 0, 4)) ==
        Integers(4, dtype == DType::boolean ? 1 : 0));  // NaN
  dut.store.store(region, 1, dut.value(dtype, {1, 0}));
  CHECK(dut.integers(dut.store.load(region, 1, 2)) == Integers{1, 0});
}

TEST_CASE("numbers are counted in integers", "[executor][integers]") {
  IntegersUnderTest dut;
  CHECK(dut.integers(dut.store.ramp(DType::i64, (1LL << 40) + 1, 3)) ==
        Integers{(1LL << 40) + 1, (1LL << 40) + 2, (1LL << 40) + 3});
}

TEST_CASE("8-bit types have the numbers of their fields", "[executor][float8]") {
  const DType dtype = GENERATE(DType::f8e4m3fn, DType::f8e5m2);
  for (const auto& [bits, number] : numbers_of(dtype)) {
    CHECK(value_of_f8(dtype, static_cast<std::uint8_t>(bits)) == number);
    CHECK(value_of_f8(dtype, static_cast<std::uint8_t>(bits | 0x80)) == -number);
    CHECK(to_f8_bits(dtype, static_cast<float>(number)) == bits);
  }
  CHECK(std::isnan(value_of_f8(dtype, 0x7f)));
  CHECK(std::isnan(value_of_f8(dtype, 0xff)));
  CHECK(to_f8_bits(dtype, kNan) == 0x7f);
  CHECK(to_f8_bits(dtype, -0.0F) == 0x80);
  CHECK(value_of_f8(DType::f8e5m2, 0x7c) == kInfinity);
  CHECK(to_f8_bits(DType::f8e5m2, kInfinity) == 0x7c);
  CHECK(to_f8_bits(DType::f8e4m3fn, kInfinity) == 0x7f);  // it has no infinity
}

TEST_CASE("8-bit types round to the nearest, of two to the even one", "[executor][float8]") {
  const DType dtype = GENERATE(DType::f8e4m3fn, DType::f8e5m2);
  const auto numbers = numbers_of(dtype);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const auto [low_bits, low] = numbers[i];
    const auto [high_bits, high] = numbers[i + 1];
    const auto middle = static_cast<float>((low + high) / 2);
    CAPTURE(low, high);
    CHECK(to_f8_bits(dtype, middle) == (low_bits % 2 == 0 ? low_bits : high_bits));
    CHECK(to_f8_bits(dtype, std::nextafter(middle, 0.0F)) == low_bits);
    CHECK(to_f8_bits(dtype, std::nextafter(middle, kInfinity)) == high_bits);
  }
  // Half-way past the largest, what is even is beyond it in one type and the largest in the other.
  CHECK(to_f8_bits(DType::f8e4m3fn, 464) == 0x7e);
  CHECK(to_f8_bits(DType::f8e4m3fn, 464.1F) == 0x7f);
  CHECK(to_f8_bits(DType::f8e5m2, 61'439) == 0x7b);
  CHECK(to_f8_bits(DType::f8e5m2, 61'440) == 0x7c);
}

}  // namespace kernbench::sim::integers_test
