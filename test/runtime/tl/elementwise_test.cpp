// Operations on elements as a kernel writes them: operators, functions, broadcasts, their errors.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::tl_elementwise_test {
namespace {

constexpr DType f16 = DType::f16;
constexpr DType f32 = DType::f32;

// Two operands of six elements.
struct Two : TlUnderTest {
  tl::Pointer a = input({1, 2, 3, 4, 5, 6});
  tl::Pointer b = input({6, 3, 3, 2, 10, -6});

  template <class Op>
  Elements of(Op op) {
    return result([&](tl::Context& tl) {
      return op(tl, tl.load(a, {2, 3}, f32), tl.load(b, {2, 3}, f32));
    });
  }
};

TEST_CASE("a number may stand on either side of an operator", "[tl][elementwise]") {
  Two k;
  CHECK(k.of([](auto&, auto x, auto) { return x + 1; }) == Elements{2, 3, 4, 5, 6, 7});
  CHECK(k.of([](auto&, auto x, auto) { return 1.0 + x; }) == Elements{2, 3, 4, 5, 6, 7});
  CHECK(k.of([](auto&, auto x, auto) { return x - 1.0F; }) == Elements{0, 1, 2, 3, 4, 5});
  CHECK(k.of([](auto&, auto x, auto) { return 1 - x; }) == Elements{0, -1, -2, -3, -4, -5});
  CHECK(k.of([](auto&, auto x, auto) { return std::int64_t{2} * x; }) ==
        Elements{2, 4, 6, 8, 10, 12});
  CHECK(k.of([](auto&, auto x, auto) { return x / 2; }) == Elements{0.5, 1, 1.5, 2, 2.5, 3});
  CHECK(k.of([](auto&, auto x, auto) { return 12 / x; }) == Elements{12, 6, 4, 3, 12.0F / 5, 2});
  CHECK(k.of([](auto&, auto x, auto) { return x < 3; }) == Elements{1, 1, 0, 0, 0, 0});
  CHECK(k.of([](auto&, auto x, auto) { return 3 < x; }) == Elements{0, 0, 0, 1, 1, 1});
  CHECK(k.of([](auto&, auto x, auto) { return x <= 3; }) == Elements{1, 1, 1, 0, 0, 0});
  CHECK(k.of([](auto&, auto x, auto) { return 3 > x; }) == Elements{1, 1, 0, 0, 0, 0});
  CHECK(k.of([](auto&, auto x, auto) { return x >= 3; }) == Elements{0, 0, 1, 1, 1, 1});
  CHECK(k.of([](auto&, auto x, auto) { return x == 3; }) == Elements{0, 0, 1, 0, 0, 0});
  CHECK(k.of([](auto&, auto x, auto) { return 3 == x; }) == Elements{0, 0, 1, 0, 0, 0});
  CHECK(k.of([](auto&, auto x, auto) { return 3 != x; }) == Elements{1, 1, 0, 1, 1, 1});
}

TEST_CASE("a number may be an argument of a function", "[tl][elementwise]") {
  Two k;
  CHECK(k.of([](auto& tl, auto x, auto) { return tl.maximum(x, 4); }) ==
        Elements{4, 4, 4, 4, 5, 6});
  CHECK(k.of([](auto& tl, auto x, auto) { return tl.minimum(4.0, x); }) ==
        Elements{1, 2, 3, 4, 4, 4});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.fma(x, y, 1); }) ==
        Elements{7, 7, 10, 9, 51, -35});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.fma(2, x, y); }) ==
        Elements{8, 7, 9, 10, 20, 6});
  CHECK(k.of([](auto& tl, auto x, auto) { return tl.clamp(x, 2, 5); }) ==
        Elements{2, 2, 3, 4, 5, 5});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.clamp(0, y, x); }) ==
        Elements{1, 2, 3, 2, 5, 0});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.where(x < y, x, y); }) ==
        Elements{1, 2, 3, 2, 5, -6});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.where(x < y, -1, x); }) ==
        Elements{-1, -1, 3, 4, -1, 6});
  CHECK(k.of([](auto& tl, auto x, auto y) { return tl.where(x < y, 10, 20); }) ==
        Elements{10, 10, 20, 20, 10, 20});
}

TEST_CASE("a cast to the same type costs nothing", "[tl][elementwise]") {
  TlUnderTest k;
  const tl::Pointer p = k.input({1, 2049, 70'000, -0.0F});
  const Time took = k.time_of([&](tl::Context& tl) { return tl.load(p, {4}, f32); },
                              [](tl::Context& tl, const tl::Tensor& x) { tl.cast(x, f32); });
  CHECK(took == Time{0});
}

// A shape, filled up in front, and how far apart the elements of each dimension lie: 0 if there is
// but one.
struct Strided {
  Strided(const std::vector<std::int64_t>& shape, std::size_t rank)
      : sizes(rank - shape.size(), 1), strides(rank) {
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    std::int64_t stride = 1;
    for (std::size_t i = rank; i-- > 0; stride *= sizes[i]) strides[i] = sizes[i] == 1 ? 0 : stride;
  }
  std::int64_t place_of(const std::vector<std::int64_t>& index) const {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < index.size(); ++i) place += index[i] * strides[i];
    return place;
  }

  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
};

// All shapes of up to three dimensions with sizes 1, 2 and 3.
std::vector<std::vector<std::int64_t>> small_shapes() {
  std::vector<std::vector<std::int64_t>> shapes = {{}};
  for (std::size_t i = 0; i < 1 + 3 + 9; ++i) {
    for (const std::int64_t size : {1, 2, 3}) {
      auto longer = shapes[i];
      longer.push_back(size);
      shapes.push_back(longer);
    }
  }
  return shapes;
}

TEST_CASE("any two shapes are broadcast as in numpy", "[tl][elementwise][broadcast]") {
  TlUnderTest k;
  Elements numbers;
  for (int i = 1; i <= 27; ++i) numbers.push_back(static_cast<float>(i));
  const tl::Pointer p = k.input(numbers);
  int fitting = 0;
  for (const auto& left : small_shapes()) {
    for (const auto& right : small_shapes()) {
      const std::size_t rank = std::max(left.size(), right.size());
      const Strided a(left, rank);
      const Strided b(right, rank);
      const auto sum = [&](tl::Context& tl) {
        return tl.load(p, Shape(left), f32) * 100 + tl.load(p, Shape(right), f32);
      };
      std::vector<std::int64_t> sizes(rank);
      bool fits = true;
      for (std::size_t i = 0; i < rank; ++i) {
        sizes[i] = std::max(a.sizes[i], b.sizes[i]);
        fits &= a.sizes[i] == b.sizes[i] || a.sizes[i] == 1 || b.sizes[i] == 1;
      }
      if (!fits) {
        const std::string error = k.error([&](tl::Context& tl) { sum(tl); });
        REQUIRE_THAT(error, Says("KB-K020", "a + b in kernel 'k' on sip0.cube0.pe0"));
        continue;
      }
      ++fitting;
      Elements expected;
      std::vector<std::int64_t> index(rank);
      for (std::int64_t n = Shape(sizes).numel(); n > 0; --n) {
        expected.push_back(
            static_cast<float>((a.place_of(index) + 1) * 100 + b.place_of(index) + 1));
        for (std::size_t i = rank; i-- > 0 && ++index[i] == sizes[i];) index[i] = 0;
      }
      REQUIRE(k.result(sum) == expected);
      REQUIRE(k.shape == Shape(sizes));
    }
  }
  // In a dimension that both shapes have, 7 of the 9 pairs of sizes fit, all but (2, 3) and (3, 2);
  // in one that a shape lacks, each of the 3 sizes fits.  Of two shapes of r dimensions 7^r
  // therefore fit, and with i more dimensions on one of two sides 2 * 7^r * 3^i.
  CHECK(fitting == (1 + 7 + 49 + 343) + 2 * 3 * (1 + 7 + 49) + 2 * 9 * (1 + 7) + 2 * 27);
}

TEST_CASE("three operands are broadcast to one shape", "[tl][elementwise][broadcast]") {
  TlUnderTest k;
  const tl::Pointer p = k.input({1, 2, 3});
  CHECK(k.result([&](tl::Context& tl) {
    return tl.fma(tl.load(p, {3, 1}, f32), tl.load(p, {2}, f32), tl.load(p, {}, f32));
  }) == Elements{2, 3, 3, 5, 4, 7});
  CHECK(k.shape == Shape{3, 2});
  CHECK(k.result([&](tl::Context& tl) {
    return tl.where(tl.load(p, {3, 1}, f32) >= 2, tl.load(p, {1, 2}, f32), 0);
  }) == Elements{0, 0, 1, 2, 1, 2});
}

TEST_CASE("tensors without elements", "[tl][elementwise]") {
  TlUnderTest k;
  const tl::Pointer p = k.input({1, 2, 3});
  CHECK(k.result([&](tl::Context& tl) {
           return tl.load(p, {0, 1}, f32) + tl.load(p, {3}, f32);
         }).empty());
  CHECK(k.shape == Shape{0, 3});
}

TEST_CASE("an operation takes its cycles for each element of its result", "[tl][timing]") {
  TlUnderTest k;  // add 1, mul 2, fma 3, div 4, compare 5, move 6, exp 7, log 8, sqrt 9, ...
  const tl::Pointer p = k.input(Elements(100, 1));
  const auto time_of = [&](auto op) {
    return k.time_of([&](tl::Context& tl) { return tl.load(p, {10, 10}, f32); }, op).count() / 1000;
  };
  CHECK(time_of([](auto&, auto& x) { x + x; }) == 100);
  CHECK(time_of([](auto&, auto& x) { x * 3; }) == 200);
  CHECK(time_of([](auto& tl, auto& x) { tl.fma(x, 2, x); }) == 300);
  CHECK(time_of([](auto&, auto& x) { 1 / x; }) == 400);
  CHECK(time_of([](auto&, auto& x) { -x; }) == 100);
  CHECK(time_of([](auto& tl, auto& x) { tl.abs(x); }) == 100);
  CHECK(time_of([](auto&, auto& x) { (void)(x < 3); }) == 500);
  CHECK(time_of([](auto& tl, auto& x) { tl.maximum(x, 0); }) == 500);
  CHECK(time_of([](auto& tl, auto& x) { tl.clamp(x, 0, 1); }) == 500);
  CHECK(time_of([](auto& tl, auto& x) { tl.where(x, x, 0); }) == 600);
  CHECK(time_of([](auto& tl, auto& x) { tl.cast(x, f16); }) == 600);
  CHECK(time_of([](auto& tl, auto& x) { tl.exp(x); }) == 700);
  CHECK(time_of([](auto& tl, auto& x) { tl.log(x); }) == 800);
  CHECK(time_of([](auto& tl, auto& x) { tl.sqrt(x); }) == 900);
  CHECK(time_of([](auto& tl, auto& x) { tl.rsqrt(x); }) == 1000);
  CHECK(time_of([](auto& tl, auto& x) { tl.sigmoid(x); }) == 1100);
  // A row and a column make 100 elements, whatever they repeat.
  CHECK(time_of([](auto& tl, auto& x) {
          const auto all = tl.reshape(x, {100});
          tl.reshape(tl.narrow(all, 0, 10), {10, 1}) + tl.narrow(all, 0, 10);
        }) == 100);
}

TEST_CASE("types must agree, and something must be a tensor", "[tl][elementwise][error]") {
  TlUnderTest k;
  const tl::Pointer wide = k.input({1, 2});
  const tl::Pointer half = k.input({1, 2}, f16);
  const auto error = [&](const auto& body) {
    return k.error(
        [&](tl::Context& tl) { body(tl, tl.load(wide, {2}, f32), tl.load(half, {2}, f16)); });
  };
  const std::string where = "in kernel 'k' on sip0.cube0.pe0";
  CHECK_THAT(error([](auto&, auto x, auto h) { return x * h; }),
             Says("KB-K020", "a * b", where, "[2] f32 and [2] f16", "tl.cast"));
  CHECK(error([](auto& tl, auto x, auto) {
          tl.fma(tl.reshape(x, {2, 1}), 0.5, tl.reshape(x, {2, 1, 1}) * tl.full({3}, 1, f32));
        }) == "no error");
  CHECK_THAT(error([](auto& tl, auto x, auto) {
               tl.fma(x, 0.5, tl.reshape(x, {2, 1, 1}) * tl.full({3}, 1, f32));
             }),
             Says("KB-K020", "tl.fma", where, "[2] f32, 0.5 and [2, 1, 3] f32"));
  CHECK_THAT(error([](auto& tl, auto x, auto) { tl.clamp(x, 0.5, tl.full({3}, 1, f32)); }),
             Says("KB-K020", "tl.clamp", where, "[2] f32, 0.5 and [3] f32"));
  CHECK_THAT(error([](auto& tl, auto, auto) { tl.maximum(1, 2.5); }),
             Says("KB-K020", "tl.maximum", where, "1 and 2.5"));
  // A mask may be of another type; what it chooses from may not.
  CHECK(error([](auto& tl, auto x, auto h) { tl.where(h, x, 0); }) == "no error");
  CHECK_THAT(error([](auto& tl, auto x, auto h) { tl.where(h, x, h); }),
             Says("KB-K020", "tl.where", where, "[2] f16, [2] f32 and [2] f16", "tl.cast"));
}

// The acceptance program's kernel.
TEST_CASE("a scaled softmax, row by row, on every PE that holds rows", "[tl][elementwise]") {
  const auto scaled_softmax = [](tl::Context& tl, tl::Pointer x, tl::Pointer y, std::int64_t rows,
                                 std::int64_t cols, double a, double b) {
    for (std::int64_t row = 0; row < rows; ++row) {
      tl::Tensor v = tl.load(x + row * cols, {1, cols}, DType::f16);
      tl::Tensor w = tl.softmax(v * a + b);
      tl.store(y + row * cols, w);
    }
  };
  RuntimeContext torch(round_topology());
  const DPPolicy dp{.cube = Shard::replicate, .pe = Shard::row_wise, .num_cubes = 1};
  constexpr std::int64_t rows = 64;
  constexpr std::int64_t cols = 128;
  Tensor x = torch.zeros({rows, cols}, {.dtype = DType::f16, .dp = dp, .name = "x"});
  const Tensor y = torch.empty({rows, cols}, {.dtype = DType::f16, .dp = dp, .name = "y"});
  Elements host(rows * cols);
  for (std::size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(i % 13) / 13.0F;
  x.copy_(RuntimeContext::tensor(host, {rows, cols}));
  const std::int64_t local_rows = x.shards().front().shape[0];
  CHECK(local_rows == rows / 2);
  torch.launch("scaled_softmax", scaled_softmax, x, y, local_rows, cols, 2.0, 0.5);
  const Elements out = y.to_vector<float>();
  double worst = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < cols; ++i) sum += std::exp(2.0 * host[row * cols + i] + 0.5);
    for (std::size_t i = 0; i < cols; ++i) {
      const double exact = std::exp(2.0 * host[row * cols + i] + 0.5) / sum;
      worst = std::max(worst, std::abs(out[row * cols + i] - exact) / exact);
    }
  }
  // Rounded to f16, x is off by 2^-12 at most, 2 x by twice that, 2 x + 0.5 by 2^-10 more.  A power
  // that is off by d makes itself and the sum off by d each.  The result is rounded by 2^-11 of it.
  CHECK(worst < 2 * (2 * 0x1p-12 + 0x1p-10) * 1.01 + 0x1p-11);
}

}  // namespace
}  // namespace kernbench::test::tl_elementwise_test
