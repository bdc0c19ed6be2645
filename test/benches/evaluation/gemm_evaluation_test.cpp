// When a row of the GEMM evaluation is right.

#include "benches/evaluation/gemm_evaluation.h"

#include <catch2/catch.hpp>
#include <string_view>

namespace kernbench::test::gemm_evaluation_test {
namespace {

using benches::Row;
using benches::evaluation::is_right;

// 100 everywhere, but for one measured figure.
Row row_with(std::string_view theory, std::string_view column = {}, double figure = 100) {
  Row row;
  row.set("wrong", std::int64_t{0}).set("theory", std::string(theory));
  for (const std::string measured : {"gemm_count", "hbm_bytes", "time_ns", "window_ns"}) {
    row.set(measured, measured == column ? figure : 100.0);
  }
  for (const char* theoretical : {"gemm_count", "hbm_bytes", "ns", "window_ns"}) {
    row.set(std::string("theoretical_") + theoretical, 100.0);
  }
  row.set("lower_bound_ns", 100.0);
  return row;
}

TEST_CASE("a row is wrong if any figure is not the theory's", "[evaluation]") {
  CHECK(is_right(row_with("exact")));
  CHECK_FALSE(is_right(row_with("exact", "gemm_count", 101)));
  CHECK_FALSE(is_right(row_with("exact", "hbm_bytes", 99)));
  CHECK_FALSE(is_right(row_with("exact", "time_ns", 100.001)));
  CHECK_FALSE(is_right(row_with("exact", "window_ns", 99.999)));
}

TEST_CASE(
    "where the theory is a model no figure may be less than its bound, and products may not differ",
    "[evaluation]") {
  CHECK(is_right(row_with("model", "time_ns", 120)));
  CHECK_FALSE(is_right(row_with("model", "time_ns", 80)));
  CHECK(is_right(row_with("model", "hbm_bytes", 120)));
  CHECK_FALSE(is_right(row_with("model", "hbm_bytes", 80)));
  CHECK_FALSE(is_right(row_with("model", "gemm_count", 120)));
}

}  // namespace
}  // namespace kernbench::test::gemm_evaluation_test
