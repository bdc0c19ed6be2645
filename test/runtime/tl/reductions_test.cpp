// sum, max, min and softmax along an axis, as a kernel writes them.

#include <catch2/catch.hpp>

#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::tl_reductions_test {
namespace {

constexpr DType f32 = DType::f32;

// 1 to 24 as [2, 3, 4].
struct Cuboid : TlUnderTest {
  tl::Pointer p = input(
      {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24});

  template <class Op>
  Elements of(Op op) {
    return result([&](tl::Context& tl) { return op(tl, tl.load(p, {2, 3, 4}, f32)); });
  }
};

TEST_CASE("a sum removes its axis, or keeps it with size 1", "[tl][reduction]") {
  Cuboid k;
  CHECK(k.of([](auto& tl, auto x) { return tl.sum(x, 2); }) == Elements{10, 26, 42, 58, 74, 90});
  CHECK(k.shape == Shape{2, 3});
  CHECK(k.of([](auto& tl, auto x) { return tl.sum(x, -2); }) ==
        Elements{15, 18, 21, 24, 51, 54, 57, 60});
  CHECK(k.shape == Shape{2, 4});
  CHECK(k.of([](auto& tl, auto x) { return tl.sum(x, 0, {.keep_dims = true}); }) ==
        Elements{14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36});
  CHECK(k.shape == Shape{1, 3, 4});
  CHECK(k.of([](auto& tl, auto x) { return tl.sum(x); }) == Elements{300});
  CHECK(k.shape == Shape{});
  CHECK(k.of([](auto& tl, auto x) { return tl.sum(x, {}, {.keep_dims = true}); }) == Elements{300});
  CHECK(k.shape == Shape{1, 1, 1});
}

TEST_CASE("max and min along an axis", "[tl][reduction]") {
  Cuboid k;
  CHECK(k.of([](auto& tl, auto x) { return tl.max(x, 1); }) ==
        Elements{9, 10, 11, 12, 21, 22, 23, 24});
  CHECK(k.of([](auto& tl, auto x) { return tl.min(x, 1); }) ==
        Elements{1, 2, 3, 4, 13, 14, 15, 16});
  CHECK(k.of([](auto& tl, auto x) { return tl.max(x); }) == Elements{24});
  CHECK(k.of([](auto& tl, auto x) { return tl.min(-x); }) == Elements{-24});
}

TEST_CASE("what a reduction keeps is broadcast against what it came from", "[tl][reduction]") {
  Cuboid k;
  CHECK(k.of([](auto& tl, auto x) {
    const auto rows = tl.reshape(x, {6, 4});
    return rows - tl.max(rows, 1, {.keep_dims = true});
  }) == Elements{-3, -2, -1, 0, -3, -2, -1, 0, -3, -2, -1, 0,
                 -3, -2, -1, 0, -3, -2, -1, 0, -3, -2, -1, 0});
}

TEST_CASE("softmax is along the last axis unless told otherwise", "[tl][reduction]") {
  Cuboid k;
  const Elements last = k.of([](auto& tl, auto x) { return tl.softmax(x * 0); });
  CHECK(last == Elements(24, 0.25F));
  CHECK(k.shape == Shape{2, 3, 4});
  CHECK(k.of([](auto& tl, auto x) { return tl.softmax(x * 0, 0); }) == Elements(24, 0.5F));
  // Softmax along one axis of a matrix is that along the other of its transpose, to the bit.
  const auto columns = [](auto& tl, auto x) { return tl.softmax(tl.reshape(x, {4, 6}), 0); };
  const auto rows = [](auto& tl, auto x) {
    return tl.trans(tl.softmax(tl.trans(tl.reshape(x, {4, 6})), 1));
  };
  CHECK(k.of(columns) == k.of(rows));
}

TEST_CASE("the sum of nothing is 0", "[tl][reduction]") {
  Cuboid k;
  CHECK(k.of([](auto& tl, auto) {
    return tl.sum(tl.zeros({2, 0}, DType::f16), 1);
  }) == Elements{0, 0});
  CHECK(k.of([](auto& tl, auto) { return tl.max(tl.zeros({0, 2}, DType::f16), 1); }).empty());
}

TEST_CASE("a reduction takes a turn per element and lane, and a tree over the lanes",
          "[tl][reduction][timing]") {
  Topology topology = one_lane_topology();  // add takes 1 cycle, compare 5, move 6, exp 7, div 4
  topology.pe.math_lanes = 8;
  TlUnderTest k(topology);
  const tl::Pointer p = k.input(Elements(100, 1));
  const auto time_of = [&](auto op) {
    return k.time_of([&](tl::Context& tl) { return tl.load(p, {20, 5}, f32); }, op).count() / 1000;
  };
  CHECK(time_of([](auto& tl, auto& x) { tl.sum(x); }) == 13 + 3);
  CHECK(time_of([](auto& tl, auto& x) { tl.sum(x, 1); }) == 13 + 3);
  CHECK(time_of([](auto& tl, auto& x) { tl.max(x, 0); }) == (13 + 3) * 5);
  CHECK(time_of([](auto& tl, auto& x) { tl.sum(tl.reshape(x, {25, 4}), 1); }) == 13 + 2);
  CHECK(time_of([](auto& tl, auto& x) { tl.softmax(x); }) ==
        (13 + 3) * 5 + 13 + 13 * 7 + (13 + 3) + 13 * 4);
}

TEST_CASE("an axis that is not there, or has no elements, is refused", "[tl][reduction][error]") {
  TlUnderTest k;
  const std::string where = " in kernel 'k' on sip0.cube0.pe0: ";
  const auto error = [&](auto op, const Shape& shape) {
    return k.error([&](tl::Context& tl) { op(tl, tl.zeros(shape, f32)); });
  };
  const auto sum_of = [](int axis) { return [=](auto& tl, auto x) { tl.sum(x, axis); }; };
  CHECK_THAT(error(sum_of(2), {3, 4}),
             Says("KB-K022", "tl.sum", where, "[3, 4] f32", "axis 2", "-2 to 1"));
  CHECK_THAT(error(sum_of(-3), {3, 4}),
             Says("KB-K022", "tl.sum", where, "[3, 4] f32", "axis -3", "-2 to 1"));
  CHECK_THAT(error(sum_of(0), {}), Says("KB-K022", "tl.sum", where, "[] f32", "axis 0", "none"));
  CHECK(error(sum_of(1), {3, 4}) == "no error");
  CHECK_THAT(error([](auto& tl, auto x) { tl.softmax(x, 3); }, {3, 4}),
             Says("KB-K022", "tl.softmax", where, "[3, 4] f32", "axis 3", "-2 to 1"));
  CHECK_THAT(error([](auto& tl, auto x) { tl.min(x, 1); }, {3, 0}),
             Says("KB-K022", "tl.min", where, "[3, 0] f32"));
}

}  // namespace
}  // namespace kernbench::test::tl_reductions_test
