// Operations on elements beyond those of two operands, which data_executor_test.cpp has.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::elementwise_test {

namespace {

using soft_float::canonical;
using soft_float::format_of;

constexpr std::int64_t kCount = 100'000;

std::size_t differences(const Elements& a, const Elements& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += canonical(a[i]) != canonical(b[i]);
  return count + (a.size() != b.size());
}

// The square root of a pattern, rounded once: in integers.
std::uint32_t root(soft_float::Format format, std::uint32_t bits) {
  const soft_float::Number x = soft_float::unpack(format, bits);
  if (x.nan || x.zero()) return bits;
  if (x.negative) return format.nan();
  if (x.infinite) return bits;
  const int shift = 60 + (x.exponent & 1);
  const soft_float::Wide radicand = x.significand << shift;
  soft_float::Wide low = 0;
  for (int bit = 50; bit >= 0; --bit) {
    const soft_float::Wide more = low | soft_float::Wide{1} << bit;
    if (more * more <= radicand) low = more;
  }
  soft_float::Number result;
  result.significand = low;
  result.exponent = (x.exponent - shift) / 2;
  return soft_float::round(format, result, low * low != radicand);
}

}  // namespace

TEST_CASE("negation and absolute value change the sign alone", "[executor][elementwise]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  std::mt19937 random(1);
  const Elements a = values_of(format_of(dtype), random_patterns(format_of(dtype), kCount, random));
  Elements negated;
  Elements absolute;
  for (const float x : a) {
    negated.push_back(-x);
    absolute.push_back(std::signbit(x) ? -x : x);
  }
  ExecutorUnderTest dut;
  CHECK(differences(dut.math(dtype, MathOp::negate, a), negated) == 0);
  CHECK(differences(dut.math(dtype, MathOp::absolute, a), absolute) == 0);
}

TEST_CASE("a cast rounds once to the new type", "[executor][elementwise][exhaustive]") {
  const DType from = GENERATE(DType::f16, DType::bf16, DType::f32);
  const DType to = GENERATE(DType::f16, DType::bf16, DType::f32);
  std::mt19937 random(2);
  const std::vector<std::uint32_t> patterns = random_patterns(format_of(from), kCount, random);
  Elements expected;
  for (const std::uint32_t bits : patterns) {
    const std::uint32_t rounded = soft_float::convert(format_of(from), format_of(to), bits);
    expected.push_back(soft_float::value_of(format_of(to), rounded));
  }
  ExecutorUnderTest dut;
  const Value a = dut.store.literal(from, values_of(format_of(from), patterns));
  const Value cast = dut.store.math(MathOp::convert, to, std::array{a});
  CHECK(cast.dtype() == to);
  CHECK(differences(dut.elements(cast), expected) == 0);
}

TEST_CASE("square roots are the nearest", "[executor][elementwise][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const soft_float::Format format = format_of(dtype);
  std::mt19937 random(3);
  const std::vector<std::uint32_t> patterns =
      dtype == DType::f32 ? random_patterns(format, kCount, random) : all_patterns();
  Elements expected;
  for (const std::uint32_t bits : patterns) {
    expected.push_back(soft_float::value_of(format, root(format, bits)));
  }
  ExecutorUnderTest dut;
  CHECK(differences(dut.math(dtype, MathOp::sqrt, values_of(format, patterns)), expected) == 0);
}

TEST_CASE("fma rounds to f32 once, also where the product and the addend nearly cancel",
          "[executor][elementwise][exhaustive]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const soft_float::Format format = format_of(dtype);
  std::mt19937 random(4);
  const Elements a = values_of(format, random_patterns(format, kCount, random));
  const Elements b = values_of(format, random_patterns(format, kCount, random));
  Elements c = values_of(format, random_patterns(format, kCount, random));
  for (std::size_t i = 0; i < c.size(); i += 2) {  // near to -a * b, a few units beside, or ties
    const float product = soft_float::math(dtype, MathOp::multiply, a[i], b[i]);
    c[i] = soft_float::round_to(dtype, -product * (1 + static_cast<float>(random() % 3) * 0x1p-7F));
  }
  Elements expected;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
    const std::uint32_t unrounded =
        soft_float::fused(soft_float::kF32, bits(a[i]), bits(b[i]), bits(c[i]));
    expected.push_back(soft_float::round_to(dtype, std::bit_cast<float>(unrounded)));
  }
  ExecutorUnderTest dut;
  CHECK(differences(dut.math(dtype, MathOp::fma, a, b, c), expected) == 0);
}

TEST_CASE("fma keeps what a product rounded first would lose", "[executor][elementwise]") {
  ExecutorUnderTest dut;
  const float x = 1 + 0x1p-23F;  // x * x = 1 + 2^-22 + 2^-46
  CHECK(dut.math(DType::f32, MathOp::fma, {x}, {x}, {-(1 + 0x1p-22F)}) == Elements{0x1p-46F});
  // 2^-70 below a tie, which rounding to double and then to f32 would take for the tie itself.
  CHECK(dut.math(DType::f32, MathOp::fma, {1 + 0x1p-23F}, {0x1p-24F * (1 - 0x1p-23F)},
                 {1 + 0x1p-23F}) == Elements{1 + 0x1p-23F});
}

TEST_CASE("floor division and what it leaves are Python's", "[executor][elementwise]") {
  ExecutorUnderTest dut;
  const Elements a = {7, -7, 7, -7, 1, 5.5F, -0.0F, 1e30F, INFINITY, 1, 0, 5, -5};
  const Elements b = {3, 3, -3, -3, 0.1F, -2, 3, 7, 2, 0, 0, INFINITY, INFINITY};
  // math.floor(a / b) and a % b of the f32 numbers, computed exactly; as CPython where b is 0.
  CHECK(differences(dut.math(DType::f32, MathOp::floor_divide, a, b),
                    {2, -3, -3, 2, 9, -3, -0.0F, 0x1.cd98aap96F, NAN, INFINITY, NAN, 0, -1}) == 0);
  CHECK(differences(dut.math(DType::f32, MathOp::remainder, a, b),
                    {1, 2, -2, -1, 0x1.999996p-4F, -0.5F, -0.0F, 1, NAN, NAN, NAN, 5, INFINITY}) ==
        0);
}

TEST_CASE("clamp is the minimum of the maximum", "[executor][elementwise]") {
  ExecutorUnderTest dut;
  const Elements x = {-3, -1, 0.5F, 1, 7, -INFINITY, INFINITY};
  const Elements low(7, -1);
  const Elements high(7, 1);
  CHECK(dut.math(DType::f16, MathOp::clamp, x, low, high) == Elements{-1, -1, 0.5F, 1, 1, -1, 1});
  CHECK(dut.math(DType::f16, MathOp::clamp, x, high, low) == Elements(7, -1));
  const Elements nan(1, NAN);
  CHECK(std::isnan(dut.math(DType::f32, MathOp::clamp, nan, {-1}, {1})[0]));
  CHECK(std::isnan(dut.math(DType::f32, MathOp::clamp, {0}, nan, {1})[0]));
  CHECK(std::isnan(dut.math(DType::f32, MathOp::clamp, {0}, {-1}, nan)[0]));
}

TEST_CASE("select takes the first where the mask is not zero, the mask may have another type",
          "[executor][elementwise]") {
  ExecutorUnderTest dut;
  const Value mask = dut.store.literal(DType::f16, Elements{1, 0, -0.0F, NAN, 0x1p-24F, 5});
  const Value a = dut.store.literal(DType::f32, Elements{10, 11, 12, 13, 14, NAN});
  const Value b = dut.store.literal(DType::f32, Elements{20, NAN, 22, NAN, 24, 25});
  const Value chosen = dut.store.math(MathOp::select, DType::f32, std::array{mask, a, b});
  const Elements expected = {10, NAN, 12 + 10, 13, 14, NAN};
  CHECK(differences(dut.elements(chosen), expected) == 0);
}

TEST_CASE("operands of several types and sizes of storage leave each other's alone",
          "[executor][elementwise]") {
  ExecutorUnderTest dut;
  Value half = dut.store.literal(DType::f16, Elements(3000, 3));
  Value wide = dut.store.math(MathOp::convert, DType::f32, std::array{half});
  wide = dut.store.math(MathOp::multiply, wide, wide);
  const Value narrow = dut.store.math(MathOp::convert, DType::f16, std::array{wide});
  half = Value();
  wide = Value();
  CHECK(dut.elements(narrow) == Elements(3000, 9));
  CHECK(dut.store.live_value_count() == 1);
  CHECK(dut.store.live_bytes() == 6000);
}

TEST_CASE("operations on too few operands, or on such as differ in size, are our own faults",
          "[executor][elementwise]") {
  MemoryStore store(true);
  const Value two = store.constant(DType::f32, 2, 1);
  const Value three = store.constant(DType::f32, 3, 1);
  CHECK_THROWS_AS(store.math(MathOp::fma, DType::f32, std::array{two, two}), InternalError);
  CHECK_THROWS_AS(store.math(MathOp::exp, two, two), InternalError);
  CHECK_THROWS_AS(store.math(MathOp::select, DType::f32, std::array{two, two, three}),
                  InternalError);
}

TEST_CASE("every operation has a name of its own", "[elementwise]") {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kMathOps.size(); ++i)
    names.push_back(name_of(static_cast<MathOp>(i)));
  CHECK(names.front() == "add");
  CHECK(name_of(MathOp::negate) == "negate");
  CHECK(name_of(MathOp::fma) == "fma");
  CHECK(name_of(MathOp::select) == "select");
  CHECK(name_of(AxisOp::ramp) == "ramp");
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
  CHECK(!names.front().empty());
}

}  // namespace kernbench::sim::elementwise_test
