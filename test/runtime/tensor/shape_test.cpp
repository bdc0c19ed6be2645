#include "sim_engine/base/shape.h"

#include <catch2/catch.hpp>
#include <vector>

#include "test/support/error_text.h"

namespace kernbench::test::shape_test {
namespace {

TEST_CASE("a shape has as many elements as its sizes' product", "[tensor][shape]") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{}.rank() == 0);
  CHECK(Shape{7}.numel() == 7);
  CHECK(Shape{2, 3, 5}.numel() == 30);
  CHECK(Shape{2, 3, 5}[2] == 5);
  CHECK(Shape{4, 0, 5}.numel() == 0);
}

TEST_CASE("a shape prints as PyTorch prints a size", "[tensor][shape]") {
  CHECK(to_string(Shape{}) == "[]");
  CHECK(to_string(Shape{1, 64}) == "[1, 64]");
}

TEST_CASE("shapes are equal when all sizes are", "[tensor][shape]") {
  CHECK(Shape{2, 3} == Shape(std::vector<std::int64_t>{2, 3}));
  CHECK_FALSE(Shape{2, 3} == Shape{3, 2});
  CHECK_FALSE(Shape{6} == Shape{2, 3});
}

TEST_CASE("a negative size is refused", "[tensor][shape]") {
  CHECK_THROWS_MATCHES((Shape{2, -1}), DeviceError, Says("KB-M012", "[2, -1]", "negative"));
}

TEST_CASE("a number of elements that overflows is refused, the largest that fits is not",
          "[tensor][shape]") {
  const std::int64_t two_to_30 = std::int64_t{1} << 30;
  CHECK(Shape{two_to_30, two_to_30}.numel() == std::int64_t{1} << 60);
  CHECK_THROWS_MATCHES((Shape{two_to_30, two_to_30, 2}), DeviceError,
                       Says("KB-M012", "[1073741824, 1073741824, 2]", "overflows"));
  CHECK_THROWS_MATCHES((Shape{4294967296, 4294967296}), DeviceError, Says("KB-M012", "overflows"));
}

}  // namespace
}  // namespace kernbench::test::shape_test
