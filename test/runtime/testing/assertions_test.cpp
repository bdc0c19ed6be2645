// The assertions of tests of several ranks: what they let pass, and what they say.

#include "runtime/testing/assertions.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "test/runtime/distributed/local_world.h"
#include "test/support/error_text.h"

namespace kernbench::test::assertions_test {
namespace {

using testing::assert_close;
using testing::assert_equal;
using testing::assert_equal_on_ranks;
using testing::assert_is_sum;
using Elements = std::vector<float>;

TEST_CASE("assert_close has PyTorch's tolerances", "[testing]") {
  LocalWorld world(1);
  const auto passes = [&](DType dtype, float actual, float expected) {
    return error_of<NumericsError>([&] {
             assert_close(world.tensor({actual}, dtype), Elements{expected});
           }) == "no error";
  };
  CHECK(passes(DType::f32, 1, 1 + 1.1e-5F));
  CHECK_FALSE(passes(DType::f32, 1, 1 + 1.3e-5F));
  CHECK(passes(DType::f16, 1, 1.00099F));
  CHECK_FALSE(passes(DType::f16, 1, 1.0012F));
  CHECK(passes(DType::bf16, 1, 1.016F));
  CHECK_FALSE(passes(DType::bf16, 1, 1.017F));
  CHECK_FALSE(passes(DType::f32, NAN, NAN));
  CHECK_FALSE(passes(DType::f32, NAN, 1));
  CHECK_FALSE(passes(DType::f32, 1, NAN));
  CHECK(passes(DType::f32, INFINITY, INFINITY));
  CHECK_FALSE(passes(DType::f32, INFINITY, -INFINITY));
}

TEST_CASE("a failed assertion says how many differ, where and by how much", "[testing]") {
  LocalWorld world(1);
  const Tensor x = world.tensor({1, 2, 3, 4});
  std::uint_least32_t line = 0;
  const std::string text = error_of<NumericsError>([&] {
    line = std::source_location::current().line() + 1;
    assert_close(x, Elements{1, 2, 4, 4.5F}, testing::Tolerance{0, 0.25});
  });
  CHECK_THAT(text, test::Says("KB-N030", "Tensor-likes are not close!",
                              fmt::format("assertions_test.cpp:{}", line),
                              "Mismatched elements: 2 / 4 (50.0%)", fmt::format("'{}'", x.name()),
                              "[2]: 3 is not 4", "off by 1", "0.25"));
  CHECK(error_of<DeviceError>([&] {
          assert_close(x, Elements{1});
        }).ends_with("[4] has 4 elements, 1 are expected"));
}

TEST_CASE("NaN is close to NaN if it is asked for, and to nothing else", "[testing]") {
  LocalWorld world(1);
  testing::Tolerance tolerance = testing::default_tolerance(DType::f32);
  CHECK(
      error_of<NumericsError>([&] {
        assert_close(world.tensor({1, NAN}), Elements{1, NAN});
      })
          .ends_with("worst at index [1]: nan is not nan, off by nan (up to nan allowed)\n  NaN is "
                     "close to nothing, unless equal_nan is asked for"));
  tolerance.equal_nan = true;
  CHECK_NOTHROW(assert_close(world.tensor({1, NAN}), Elements{1, NAN}, tolerance));
  CHECK_THROWS_AS(assert_close(world.tensor({1, NAN}), Elements{1, 2}, tolerance), NumericsError);
  CHECK_THROWS_AS(assert_close(world.tensor({1, 2}), Elements{1, NAN}, tolerance), NumericsError);
  CHECK_NOTHROW(assert_is_sum(world.tensor({NAN}), {{1}, {NAN}}));
  CHECK_THROWS_AS(assert_is_sum(world.tensor({1}), {{1}, {NAN}}), NumericsError);
}

TEST_CASE("assert_equal compares bits", "[testing]") {
  LocalWorld world(1);
  const Tensor x = world.tensor({0, NAN, 2});
  CHECK(error_of<NumericsError>([&] { assert_equal(x, Elements{0, NAN, 2}); }) == "no error");
  CHECK(error_of<NumericsError>([&] {
          assert_equal(x, Elements{-0.0F, NAN, 2});
        }).ends_with("first at index [0]: 0 is not -0"));
}

TEST_CASE("the bound of a sum grows with the ranks, and is kept", "[testing]") {
  LocalWorld world(1);
  // Three halves of a unit in the last place of f16 at 1: the sum 1 + 3 * 2^-11 may round to 1.
  const std::vector<Elements> parts = {{1}, {0x1p-11F}, {0x1p-11F}, {0x1p-11F}};
  const auto passes = [&](float actual) {
    return error_of<NumericsError>(
               [&] { assert_is_sum(world.tensor({actual}, DType::f16), parts); }) == "no error";
  };
  CHECK(passes(1));
  CHECK(passes(1 + 0x1p-9F));
  CHECK_FALSE(passes(1 + 0x1p-8F));
  CHECK_FALSE(passes(1 - 0x1p-10F));
}

TEST_CASE("ranks that differ are named", "[testing]") {
  LocalWorld world(3);
  std::string text;
  try {
    world.spawn([&](int rank) {
      const Tensor same = world.tensor({1, 2});
      assert_equal_on_ranks(world.torch, same);
      const Tensor x = world.tensor({1, rank == 2 ? 3.0F : 2.0F});
      assert_equal_on_ranks(world.torch, x);
    });
  } catch (const SpawnException& error) {
    text = error.what();
    CHECK(error.exit_code() == ExitCode::values);
  }
  CHECK(text.find("rank 0 vs 2 at element [1]: 2 (0x40000000) vs 3 (0x40400000)") !=
        std::string::npos);
}

TEST_CASE("ranks with tensors of different sizes differ", "[testing]") {
  LocalWorld world(2);
  CHECK(
      error_of<SpawnException>([&] {
        world.spawn([&](int rank) {
          assert_equal_on_ranks(world.torch, rank == 0 ? world.tensor({1}) : world.tensor({1, 2}));
        });
      }).find("rank 0 has 1 elements, rank 1 has 2") != std::string::npos);
}

}  // namespace
}  // namespace kernbench::test::assertions_test
