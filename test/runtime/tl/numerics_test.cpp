// Compares every operation of tl, in every type, with a plain loop in exact integers (soft_float.h)
// or in long double: NaN, infinities, both zeros, subnormals, odd sizes.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "test/runtime/tl/tl_under_test.h"
#include "test/sim_engine/values/soft_float.h"

namespace kernbench::test::numerics_test {
namespace {

using sim::MathOp;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Elements rounded(DType dtype, Elements elements) {
  for (float& element : elements) element = soft_float::round_to(dtype, element);
  return elements;
}

// Returns special numbers first, then numbers of all magnitudes that f16 has.
Elements mixed(DType dtype, std::size_t count, unsigned seed) {
  Elements elements = {0.0F,     -0.0F,     1,        -1,       kInfinity, -kInfinity, kNan,
                       65504.0F, -65504.0F, 0x1p-24F, 0x1p-14F, -0x1p-14F, 3,          -0.1F};
  std::mt19937 generator(seed);
  std::shuffle(elements.begin(), elements.end(), generator);
  const auto draw = [&] { return static_cast<float>(generator() % 65536) / 32768 - 1; };
  while (elements.size() < count) {
    elements.push_back(std::ldexp(draw(), static_cast<int>(generator() % 40) - 24));
  }
  elements.resize(count);
  return rounded(dtype, elements);
}

std::vector<std::uint32_t> bits_of(const Elements& elements) {
  std::vector<std::uint32_t> bits;
  for (const float element : elements) bits.push_back(soft_float::canonical(element));
  return bits;
}

template <class Reference>
Elements loop(DType dtype, std::size_t count, Reference reference) {
  Elements elements;
  for (std::size_t i = 0; i < count; ++i) {
    elements.push_back(soft_float::round_to(dtype, reference(i)));
  }
  return elements;
}

// Three operands of an odd number of elements.
struct Three : TlUnderTest {
  Three(DType type, std::size_t element_count)
      : operand_type(type), count(element_count), shape_of_all{static_cast<std::int64_t>(count)} {}

  template <class Op>
  std::vector<std::uint32_t> of(Op op) {
    return bits_of(result([&](tl::Context& tl) {
      const auto load = [&](const tl::Pointer& p) {
        return tl.load(p, shape_of_all, operand_type);
      };
      return op(tl, load(pa), load(pb), load(pc));
    }));
  }
  template <class Reference>
  std::vector<std::uint32_t> expect(Reference reference) const {
    return bits_of(
        loop(operand_type, count, [&](std::size_t i) { return reference(a[i], b[i], c[i]); }));
  }
  // By soft_float, in f32.
  std::vector<std::uint32_t> expect(MathOp op) const {
    return expect([&](float x, float y, float) { return soft_float::math(DType::f32, op, x, y); });
  }

  DType operand_type;
  std::size_t count;
  Shape shape_of_all;
  Elements a = mixed(operand_type, count, 1);
  Elements b = mixed(operand_type, count, 2);
  Elements c = mixed(operand_type, count, 3);
  tl::Pointer pa = input(a, operand_type);
  tl::Pointer pb = input(b, operand_type);
  tl::Pointer pc = input(c, operand_type);
};

float fused(float a, float b, float c) {
  return std::bit_cast<float>(soft_float::fused(soft_float::kF32, std::bit_cast<std::uint32_t>(a),
                                                std::bit_cast<std::uint32_t>(b),
                                                std::bit_cast<std::uint32_t>(c)));
}

float f32(MathOp op, float a, float b) {
  return soft_float::math(DType::f32, op, a, b);
}

TEST_CASE("operators are those of a plain loop, to the bit", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const std::size_t count = GENERATE(std::size_t{1}, std::size_t{33}, std::size_t{1021});
  Three k(dtype, count);
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a + b; }) == k.expect(MathOp::add));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a - b; }) == k.expect(MathOp::subtract));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a * b; }) == k.expect(MathOp::multiply));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a / b; }) == k.expect(MathOp::divide));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a < b; }) == k.expect(MathOp::less));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a <= b; }) == k.expect(MathOp::less_equal));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a > b; }) == k.expect(MathOp::greater));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a >= b; }) ==
        k.expect(MathOp::greater_equal));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a == b; }) == k.expect(MathOp::equal));
  CHECK(k.of([](auto&, auto a, auto b, auto) { return a != b; }) == k.expect(MathOp::not_equal));
  CHECK(k.of([](auto&, auto a, auto, auto) { return -a; }) ==
        k.expect([](float x, float, float) { return -x; }));
  CHECK(k.dtype == dtype);
}

TEST_CASE("operators with a number, which is rounded to the type first", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  Three k(dtype, 77);
  const float number = soft_float::round_to(dtype, 0.1F);
  CHECK(k.of([](auto&, auto a, auto, auto) { return a + 0.1; }) ==
        k.expect([&](float x, float, float) { return f32(MathOp::add, x, number); }));
  CHECK(k.of([](auto&, auto a, auto, auto) { return 0.1 - a; }) ==
        k.expect([&](float x, float, float) { return f32(MathOp::subtract, number, x); }));
  CHECK(k.of([](auto&, auto a, auto, auto) { return a * 0.1F; }) ==
        k.expect([&](float x, float, float) { return f32(MathOp::multiply, x, number); }));
  CHECK(k.of([](auto&, auto a, auto, auto) { return 0.1 / a; }) ==
        k.expect([&](float x, float, float) { return f32(MathOp::divide, number, x); }));
  CHECK(k.of([](auto&, auto a, auto, auto) { return a >= 0.1; }) ==
        k.expect([&](float x, float, float) { return f32(MathOp::greater_equal, x, number); }));
  CHECK(k.of([](auto&, auto a, auto, auto) { return a != kNan; }) ==
        k.expect([](float, float, float) { return 1.0F; }));
}

TEST_CASE("functions are those of a plain loop, to the bit", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const std::size_t count = GENERATE(std::size_t{5}, std::size_t{1021});
  Three k(dtype, count);
  CHECK(k.of([](auto& tl, auto a, auto b, auto) { return tl.maximum(a, b); }) ==
        k.expect(MathOp::maximum));
  CHECK(k.of([](auto& tl, auto a, auto b, auto) { return tl.minimum(a, b); }) ==
        k.expect(MathOp::minimum));
  CHECK(k.of([](auto& tl, auto a, auto b, auto c) { return tl.fma(a, b, c); }) == k.expect(fused));
  CHECK(k.of([](auto& tl, auto a, auto b, auto c) { return tl.clamp(a, b, c); }) ==
        k.expect([](float x, float low, float high) {
          return f32(MathOp::minimum, f32(MathOp::maximum, x, low), high);
        }));
  CHECK(k.of([](auto& tl, auto a, auto b, auto c) { return tl.where(a, b, c); }) ==
        k.expect([](float mask, float x, float y) { return mask != 0 ? x : y; }));
  CHECK(k.of([](auto& tl, auto a, auto, auto) { return tl.abs(a); }) ==
        k.expect([](float x, float, float) { return std::signbit(x) ? -x : x; }));
  CHECK(k.of([](auto& tl, auto a, auto, auto) { return tl.sqrt(a); }) ==
        k.expect([](float x, float, float) { return std::sqrt(x); }));
}

TEST_CASE("exp, log, rsqrt and sigmoid are the nearest f32 or one beside it, rounded to the type",
          "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  Three k(dtype, 1021);
  const auto check = [&](auto op, auto exact) {
    const auto found = k.of(op);
    for (std::size_t i = 0; i < k.count; ++i) {
      const auto nearest = static_cast<float>(exact(static_cast<long double>(k.a[i])));
      std::vector<std::uint32_t> right;
      for (const float value :
           {std::nextafter(nearest, -kInfinity), nearest, std::nextafter(nearest, kInfinity)}) {
        right.push_back(soft_float::canonical(soft_float::round_to(dtype, value)));
      }
      CAPTURE(k.a[i], found[i], right);
      REQUIRE(std::ranges::count(right, found[i]) > 0);
    }
  };
  check([](auto& tl, auto a, auto, auto) { return tl.exp(a); },
        [](long double x) { return std::exp(x); });
  check([](auto& tl, auto a, auto, auto) { return tl.log(a); },
        [](long double x) { return std::log(x); });
  check([](auto& tl, auto a, auto, auto) { return tl.rsqrt(a); },
        [](long double x) { return 1 / std::sqrt(x); });
  check([](auto& tl, auto a, auto, auto) { return tl.sigmoid(a); },
        [](long double x) { return 1 / (1 + std::exp(-x)); });
}

TEST_CASE("a cast rounds once, from any type to any other", "[tl][numerics]") {
  const DType from = GENERATE(DType::f16, DType::bf16, DType::f32);
  const DType to = GENERATE(DType::f16, DType::bf16, DType::f32);
  Three k(from, 1021);
  CHECK(k.of([&](auto& tl, auto a, auto, auto) { return tl.cast(a, to); }) ==
        bits_of(rounded(to, k.a)));
  CHECK(k.dtype == to);
}

TEST_CASE("a row, a column and a number are repeated as in a loop", "[tl][numerics][broadcast]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  constexpr std::size_t kRows = 7;
  constexpr std::size_t kColumns = 13;
  Three k(dtype, kRows * kColumns);
  const auto found = k.of([](tl::Context& tl, const auto& a, const auto& b, const auto& c) {
    const tl::Tensor column = tl.reshape(tl.narrow(a, 0, kRows), {kRows, 1});
    const tl::Tensor row = tl.narrow(b, 0, kColumns);
    return tl.fma(column, row, tl.reshape(c, {1, kRows, kColumns})) * 3;
  });
  CHECK(k.shape == Shape{1, kRows, kColumns});
  CHECK(found == bits_of(loop(dtype, k.count, [&](std::size_t i) {
          const float sum = fused(k.a[i / kColumns], k.b[i % kColumns], k.c[i]);
          return f32(MathOp::multiply, soft_float::round_to(dtype, sum), 3);
        })));
}

// As compute_ops.h defines it; -0 is what changes no sum.
float sum_of(const Elements& elements) {
  Elements partial(16, -0.0F);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    partial[i % 16] = f32(MathOp::add, partial[i % 16], elements[i]);
  }
  for (const std::size_t half : {8, 4, 2, 1}) {
    for (std::size_t i = 0; i < half; ++i) {
      partial[i] = f32(MathOp::add, partial[i], partial[i + half]);
    }
  }
  return partial[0];
}

TEST_CASE("sums, maxima and minima along an axis are those of a plain loop, to the bit",
          "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const std::size_t length = GENERATE(std::size_t{1}, std::size_t{15}, std::size_t{37});
  constexpr std::size_t kRows = 9;
  const bool is_last = GENERATE(true, false);
  Three k(dtype, kRows * length);
  const auto of = [&](auto op) {
    return k.of([&](tl::Context& tl, const auto& a, const auto&, const auto&) {
      const auto rows = static_cast<std::int64_t>(kRows);
      const auto columns = static_cast<std::int64_t>(length);
      return op(tl, tl.reshape(a, is_last ? Shape{rows, columns} : Shape{columns, rows}),
                is_last ? 1 : 0);
    });
  };
  const auto expect = [&](auto reference) {
    return bits_of(loop(dtype, kRows, [&](std::size_t row) {
      Elements along;
      for (std::size_t i = 0; i < length; ++i) {
        along.push_back(k.a[is_last ? row * length + i : i * kRows + row]);
      }
      return reference(along);
    }));
  };
  const auto extreme = [](MathOp op) {
    return [op](const Elements& along) {
      float found = along.front();
      for (const float element : along) found = f32(op, found, element);
      return found;
    };
  };
  CHECK(of([](auto& tl, auto x, int axis) { return tl.sum(x, axis); }) == expect(sum_of));
  CHECK(of([](auto& tl, auto x, int axis) { return tl.max(x, axis); }) ==
        expect(extreme(MathOp::maximum)));
  CHECK(of([](auto& tl, auto x, int axis) { return tl.min(x, axis); }) ==
        expect(extreme(MathOp::minimum)));
}

// The bound holds for numbers up to 8 in magnitude.  A difference is off by 16 * 2^-24 at most,
// which is a power's relative error besides its rounding of 2^-24.  The sum has the same error and
// (ceil(n / 16) + 3) more roundings, and the quotient has one, and that to the type.
TEST_CASE("softmax is that of a plain loop within the bound of its roundings", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  const std::size_t length = GENERATE(std::size_t{1}, std::size_t{13}, std::size_t{101});
  TlUnderTest k;
  std::mt19937 generator(4);
  Elements x;
  for (std::size_t i = 0; i < 3 * length; ++i) {
    x.push_back(static_cast<float>(generator() % 16001) / 1000 - 8);
  }
  x = rounded(dtype, x);
  const tl::Pointer p = k.input(x, dtype);
  const Elements found = k.result([&](tl::Context& tl) {
    return tl.softmax(tl.load(p, {3, static_cast<std::int64_t>(length)}, dtype));
  });
  const double precision = dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-24;
  const double sums = std::ceil(static_cast<double>(length) / 16) + 3;
  const double bound = (2 * (16 + 1) + sums + 1) * 0x1p-24 * 1.001 + precision;
  for (std::size_t row = 0; row < 3; ++row) {
    long double sum = 0;
    const auto power = [&](std::size_t i) {
      return std::exp(static_cast<long double>(x[row * length + i]));
    };
    for (std::size_t i = 0; i < length; ++i) sum += power(i);
    for (std::size_t i = 0; i < length; ++i) {
      const auto exact = static_cast<double>(power(i) / sum);
      const double least = dtype == DType::f16 ? 0x1p-25 : 0;  // a subnormal is rounded by so much
      CAPTURE(row, i);
      REQUIRE(std::abs(found[row * length + i] - exact) <= bound * exact + least);
    }
  }
}

TEST_CASE("softmax with infinities and NaN", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  TlUnderTest k;
  const tl::Pointer p = k.input(
      {-kInfinity, 2, 2, kNan, 1, 1, kInfinity, 1, 1, -kInfinity, -kInfinity, -kInfinity}, dtype);
  const Elements found = k.result([&](tl::Context& tl) {
    return tl.softmax(tl.load(p, {4, 3}, dtype));
  });
  CHECK(bits_of(found) ==
        bits_of({0, 0.5, 0.5, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan}));
}

TEST_CASE("values are moved, made and seen in other shapes in every type", "[tl][numerics]") {
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  Three k(dtype, 5 * 11);
  CHECK(k.of([](auto& tl, auto a, auto, auto) {
    return tl.trans(tl.reshape(a, {5, 11}));
  }) == bits_of(loop(dtype, 55, [&](std::size_t i) { return k.a[i % 5 * 11 + i / 5]; })));
  CHECK(k.shape == Shape{11, 5});
  CHECK(k.of([&](auto& tl, auto, auto, auto) { return tl.full({3}, 1.0 / 3, dtype); }) ==
        bits_of(rounded(dtype, Elements(3, 1.0F / 3))));
  CHECK(k.of([&](auto& tl, auto, auto, auto) { return tl.full({1}, -0.0, dtype); }) ==
        bits_of({-0.0F}));
  CHECK(k.of([&](auto& tl, auto, auto, auto) { return tl.zeros({7}, dtype); }) ==
        bits_of(Elements(7, 0)));
  CHECK(k.of([&](auto& tl, auto, auto, auto) { return tl.arange(-100, 101, dtype); }) ==
        bits_of(loop(dtype, 201, [](std::size_t i) { return static_cast<float>(i) - 100; })));
}

}  // namespace
}  // namespace kernbench::test::numerics_test
