// Tiles of matrices: tl.load and tl.store with a pitch.

#include <catch2/catch.hpp>

#include "test/runtime/tl/pair_under_test.h"

namespace kernbench::test::rows_test {
namespace {

using Floats = std::vector<float>;

const auto kNothing = [](tl::Context&, tl::Pointer) {};

TEST_CASE("a tile of a matrix is loaded and stored row by row", "[tl][rows]") {
  RuntimeContext torch(round_topology());
  Tensor x = torch.zeros({4, 6}, {.dp = DPPolicy::on_one_pe()});
  Floats numbers;
  for (int i = 0; i < 24; ++i) numbers.push_back(static_cast<float>(i));
  x.copy_(RuntimeContext::tensor(numbers, {4, 6}));
  torch.launch(
      "k",
      [](tl::Context& tl, tl::Pointer p) {
        const tl::Tensor tile = tl.load(p + 7, {2, 3}, DType::f32, 6);
        CHECK(tile.shape() == Shape{2, 3});
        tl.store(p + 2 * 6, tile + tile, 6);
      },
      x);
  CHECK(x.to_vector() == Floats{0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                14, 16, 18, 15, 16, 17, 26, 28, 30, 21, 22, 23});
}

TEST_CASE("a tile takes the time of its bytes", "[tl][rows][timing]") {
  PairUnderTest pair;
  Time took{0};
  pair.run(
      [&](tl::Context& tl, tl::Pointer p) {
        const Time begin = pair.now();
        tl.load(p, {20, 50}, DType::f32, 200);
        tl.drain();
        took = pair.now() - begin;
      },
      kNothing);
  CHECK(took == Time{(53 + 200) * 1000});
}

TEST_CASE("tiles that reach beyond the shard, overlap or are no matrices are refused",
          "[tl][rows][error]") {
  PairUnderTest pair;
  const auto load = [&](std::int64_t at, const Shape& shape, std::int64_t pitch) {
    return pair.device_error_of(
        [=](tl::Context& tl, tl::Pointer p) { tl.load(p + at, shape, DType::f32, pitch); });
  };
  CHECK(load(0, {4, 1000}, 1000) == "no error");
  CHECK(load(0, {2, 1000}, 3000) == "no error");
  CHECK(load(3999, {1, 1}, 0) == "no error");
  const std::string where = "tl.load in kernel 'pair' on sip0.cube0.pe0";
  CHECK_THAT(load(1, {2, 1000}, 3000), Says("KB-M020", where, "1..4000", "'x'", "4000 elements"));
  CHECK_THAT(load(0, {2, 10}, 9), Says("KB-K032", where, "[2, 10]", "9 elements"));
  CHECK_THAT(load(0, {20}, 20), Says("KB-K032", where, "[20]", "20 elements"));
  CHECK_THAT(load(0, {2, 10}, -10), Says("KB-K032", where, "[2, 10]", "-10 elements"));
  const std::string stored = pair.device_error_of([](tl::Context& tl, tl::Pointer p) {
    tl.store(p, tl.load(p, {2, 10}, DType::f32), 4000);
  });
  CHECK_THAT(stored, Says("KB-M020", "tl.store", "0..4009", "'x'", "4000 elements"));
}

TEST_CASE("PEs that store different columns of the same rows do not race", "[tl][rows][race]") {
  PairUnderTest pair;
  const auto columns = [&](std::int64_t first) {
    return [&pair, first](tl::Context& tl, tl::Pointer own) {
      const tl::Pointer shared = RuntimeContext::pointer_to(pair.x, PairUnderTest::kFirst);
      tl.store(shared + first, tl.load(own, {20, 50}, DType::f32), 200);
    };
  };
  CHECK(pair.device_error_of(columns(0), columns(50)) == "no error");
  const std::string text = pair.device_error_of(columns(0), columns(49));
  CHECK_THAT(text, Says("KB-M030", "49..49", "49..98 and 19 more rows, 200 apart"));
}

TEST_CASE("rows so far apart that their end is no number are refused", "[tl][rows][error]") {
  PairUnderTest pair;
  const auto load = [&](const Shape& shape, std::int64_t pitch) {
    return pair.device_error_of(
        [=](tl::Context& tl, tl::Pointer p) { tl.load(p, shape, DType::f32, pitch); });
  };
  constexpr std::int64_t kMany = std::int64_t{1} << 60;
  CHECK_THAT(load({kMany, 1}, 16), Says("KB-M020", "0..18446744073709551600"));  // 2^64 - 16
  CHECK_THAT(load({3, 1}, std::int64_t{1} << 62), Says("KB-M020", "0..9223372036854775808"));
  CHECK(load({kMany, 0}, 16) == "no error");
  CHECK_THAT(load({2, 4000}, 4000), Says("KB-M020", "0..7999"));
  CHECK(load({2, 1}, 3999) == "no error");
  CHECK_THAT(load({2, 1}, 4000), Says("KB-M020", "0..4000"));
}

}  // namespace
}  // namespace kernbench::test::rows_test
