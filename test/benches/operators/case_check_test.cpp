// Cases that are refused before anything is simulated.

#include "benches/operators/case_check.h"

#include <catch2/catch.hpp>

#include "benches/operators/operator_cases.h"
#include "benches/operators/operator_run.h"
#include "sim_engine/base/error.h"
#include "test/benches/operators/authors_case.h"
#include "test/support/error_text.h"

namespace kernbench::test::case_check_test {
namespace {

using namespace benches::operators;
using Catch::Contains;

void check(const OperatorCase& operator_case, bool plot = false) {
  check_case(operator_case, std::array{DType::bf16, DType::f32}, 0, plot);
}

TEST_CASE("a case that is one passes", "[case_check]") {
  CHECK_NOTHROW(check(AuthorsCase()));
  for (const auto& [name, operator_case] : operator_cases()) CHECK_NOTHROW(check(*operator_case));
}

TEST_CASE("names that would leave the folder, or name no file, are refused",
          "[case_check][errors]") {
  AuthorsCase dut;
  for (const char* name : {"", "../evil", "a/b", ".", "a b", "a,b"}) {
    dut.case_name = name;
    CHECK_THROWS_MATCHES(check(dut), Error,
                         Says("KB-O003", "'" + dut.case_name + "'", "'_'", "'-'"));
  }
}

TEST_CASE("sizes are some, in range, and different ones", "[case_check][errors]") {
  AuthorsCase dut;
  auto& sizes = GENERATE(0, 1) == 0 ? dut.checked : dut.timed;
  const std::string range =
      "() returns sizes, at least one: batch, seq, dim and the number of tokens from 1 to 2^24";
  sizes = {};
  CHECK_THROWS_WITH(check(dut), Contains(range));
  constexpr std::int64_t kHuge = std::int64_t{1} << 32;
  for (const ProblemSize& size :
       {ProblemSize{1, 8, 0}, ProblemSize{1, 0, 64}, ProblemSize{-1, 8, 64},
        ProblemSize{kHuge, kHuge, 64}, ProblemSize{1 << 13, 1 << 12, 64}}) {
    sizes = {{1, 16, 40}, size};
    CHECK_THROWS_WITH(check(dut), Contains(range));
  }
  sizes = {{1, 16, 40}, {2, 8, 40}, {1, 16, 40}};
  CHECK_THROWS_WITH(check(dut), Contains("sizes() returns (1, 16, 40) twice"));
}

TEST_CASE("with --plot a size has batch 1", "[case_check][errors]") {
  AuthorsCase dut;
  dut.timed = {{2, 16, 40}};
  CHECK_NOTHROW(check(dut));
  CHECK_THROWS_WITH(check(dut, true), Contains("none of its sizes() to plot has batch 1"));
}

TEST_CASE("providers are some, naive first, each with names of its own", "[case_check][errors]") {
  AuthorsCase dut;
  const std::string naive_first = "providers() returns at least one, naive() first";
  dut.all = {};
  CHECK_THROWS_WITH(check(dut), Contains(naive_first));
  dut.all = {compiled(), naive()};
  CHECK_THROWS_WITH(check(dut), Contains(naive_first));
  dut.all = {naive(), compiled(), compiled()};
  CHECK_THROWS_WITH(check(dut),
                    Contains("two providers have the name 'compiled' or the title 'Compiled'"));
  dut.all = {naive(), {"other", "Naive", naive().make}};
  CHECK_THROWS_WITH(check(dut), Contains("the title 'Naive'"));
  dut.all = {naive(), {"a/b", "Mine", naive().make}};
  CHECK_THROWS_WITH(check(dut), Contains("a provider's name is 'a/b'; it names files"));
  dut.all = {naive(), {"mine", "", naive().make}};
  CHECK_THROWS_WITH(check(dut), Contains("provider 'mine' has no title"));
  dut.all = {naive(), fused(nullptr, nullptr)};
  CHECK_THROWS_WITH(check(dut), Contains("provider 'fused' has no make()"));
}

TEST_CASE("a graph that is none at a timed size is found before any check",
          "[case_check][errors]") {
  AuthorsCase dut;
  dut.timed = {{1, 16, 41}};
  dut.inputs = [](const Problem& problem) {
    return std::vector{token_input("x", problem), parameter("weight", problem, 40, 1, 0.25)};
  };
  CHECK_THROWS_MATCHES(check(dut), Error, Says("KB-O001", "[tokens, 41] bf16", "[1, 40] bf16"));
}

// x, dy, and of two providers y and dx: 6 tensors of 2^20 * 512 * 4 bytes, 2 GiB each.
TEST_CASE("a check that would fill the host's memory is refused", "[case_check][errors]") {
  AuthorsCase dut;
  dut.checked = {{1, 1 << 20, 512}};
  CHECK_THROWS_WITH(check(dut), Contains("f32 (1, 1048576, 512)") && Contains("12.0 GiB") &&
                                    Contains("8 GiB at most"));
}

TEST_CASE("a share without rows has no blocks, a row without bytes is refused",
          "[case_check][errors]") {
  const TokenShare none{.first = 4, .count = 0, .scratch = 1024};
  CHECK(rows_per_block(none, 64) == 1);
  int blocks = 0;
  for_each_block(
      none, 1, [](std::int64_t, std::int64_t) { return 0; },
      [&](std::int64_t, std::int64_t, int) { ++blocks; });
  CHECK(blocks == 0);
  CHECK_THROWS_MATCHES(rows_per_block({.first = 0, .count = 4, .scratch = 1024}, 0), Error,
                       Says("KB-O004", "rows_per_block() with 0 bytes"));
}

}  // namespace
}  // namespace kernbench::test::case_check_test
