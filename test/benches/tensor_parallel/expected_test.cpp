#include "benches/tensor_parallel/expected.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace kernbench::benches::expected_test {

namespace {

using Floats = std::vector<float>;

// Columns 0 and 1 may be off by 0.5, columns 2 and 3 by 2, and so on again.
const tensor_parallel::Expected kWithBounds{2, 8, std::vector<double>(16, 1), 2, {0.5, 2}};

}  // namespace

TEST_CASE("without bounds elements must be equal", "[tensor_parallel]") {
  const tensor_parallel::Expected exact{2, 2, {1, 2, 3, 4}};
  const tensor_parallel::Comparison same =
      tensor_parallel::compare(Floats{1, 2, 3, 4}, exact, {0, 2, 0, 2});
  CHECK(same.wrong == 0);
  CHECK(same.worst == 0);
  CHECK(tensor_parallel::compare(Floats{1, 2, 3, 4.0001F}, exact, {0, 2, 0, 2}).wrong == 1);
  CHECK(tensor_parallel::compare(Floats{4}, exact, {1, 1, 1, 1}).wrong == 0);
  CHECK(tensor_parallel::compare(Floats{2, 4}, exact, {0, 2, 1, 1}).wrong == 0);
  CHECK(tensor_parallel::compare(Floats{3, 4}, exact, {0, 1, 0, 2}).wrong == 2);
}

TEST_CASE("blocks of columns have bounds in turn", "[tensor_parallel]") {
  CHECK(tensor_parallel::compare(Floats{1.5F, 0.5F, 3, -1, 1.5F, 1.5F, 3, 3}, kWithBounds,
                                 {0, 1, 0, 8})
            .wrong == 0);
  CHECK(tensor_parallel::compare(Floats{1.6F, 1, 3, 3.1F, 1, 0.4F, -1, -1.1F}, kWithBounds,
                                 {1, 1, 0, 8})
            .wrong == 4);
  CHECK(tensor_parallel::compare(Floats{3, 3}, kWithBounds, {0, 2, 3, 1}).wrong == 0);
  CHECK(tensor_parallel::compare(Floats{3, 3}, kWithBounds, {0, 2, 4, 1}).wrong == 2);
}

TEST_CASE("what is no number is wrong", "[tensor_parallel]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(tensor_parallel::compare(Floats{nan}, kWithBounds, {0, 1, 0, 1}).wrong == 1);
  CHECK(tensor_parallel::compare(Floats{nan}, tensor_parallel::Expected{1, 1, {1}}, {0, 1, 0, 1})
            .wrong == 1);
}

TEST_CASE("errors and bounds are told beside the values", "[tensor_parallel]") {
  const tensor_parallel::Comparison found =
      tensor_parallel::compare(Floats{1.25F, 1, 2, 1}, kWithBounds, {0, 1, 0, 4});
  CHECK(found.worst == 0.5);  // 0.25 of 0.5, 1 of 2
  CHECK(found.error == Approx(std::sqrt((0.0625 + 1) / 4)));
  CHECK(found.bound == Approx(std::sqrt((0.25 + 0.25 + 4 + 4) / 4)));
}

}  // namespace kernbench::benches::expected_test
