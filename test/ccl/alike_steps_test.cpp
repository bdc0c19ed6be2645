// Steps of two members that are alike but for where they stand.

#include "ccl/steps/alike_steps.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "ccl/steps/cut_cache.h"

namespace kernbench::test::alike_steps_test {
namespace {

using ccl::HeldElements;
using ccl::Slice;

// Three steps hold values of so many elements, under these numbers, and a fourth takes `taken`.
ccl::StepList make_list(const std::vector<int>& numbers, const std::vector<HeldElements>& taken) {
  ccl::StepList list;
  for (const int number : numbers) {
    ccl::Step& step = list.steps.emplace_back();
    step.held = number;
    step.uses = 1;
    step.columns = 8;
  }
  ccl::Step& taker = list.steps.emplace_back();
  taker.taken_count = static_cast<std::uint16_t>(taken.size());
  taker.columns = 8;
  list.taken = taken;
  list.held_count = 3;
  return list;
}

bool are_alike(const std::vector<HeldElements>& one, const std::vector<HeldElements>& other) {
  return ccl::are_alike(make_list({0, 1, 2}, one), make_list({1, 0, 2}, other),
                        [](int, int) { return true; });
}

std::vector<std::int64_t> sizes_of(const Slice& whole, std::int64_t most, int chunks) {
  std::vector<Slice> slices;
  ccl::CutSizes cut;
  cut.most = most;
  cut.chunk_count = chunks;
  cut.has_equal_chunks = true;
  ccl::append_slices(slices, whole, cut);
  std::vector<std::int64_t> sizes;
  for (const Slice& slice : slices) sizes.push_back(slice.count());
  return sizes;
}

}  // namespace

// The other numbers the first two values the other way round.
TEST_CASE("members may put the same values together in any order", "[ccl][alike]") {
  CHECK(are_alike({{0, 0, 4}, {1, 0, 4}}, {{1, 0, 4}, {0, 0, 4}}));
  CHECK(are_alike({{0, 0, 4}, {1, 0, 4}}, {{0, 0, 4}, {1, 0, 4}}));
  CHECK(are_alike({{0, 0, 4}, {2, 0, 4}}, {{2, 4, 4}, {1, 0, 4}}));
  CHECK(are_alike({{0, 0, 8}, {1, 0, 4}}, {{0, 0, 4}, {1, 0, 8}}));
  CHECK_FALSE(are_alike({{0, 0, 4}, {1, 0, 4}}, {{2, 0, 4}, {1, 0, 4}}));
  CHECK_FALSE(are_alike({{0, 0, 8}, {1, 0, 4}}, {{0, 0, 8}, {1, 0, 4}}));
  CHECK_FALSE(are_alike({{0, 0, 4}, {1, 0, 4}}, {{1, 0, 4}, {1, 0, 4}}));
}

TEST_CASE("slices of equal chunks leave out less than an element of each", "[ccl][alike]") {
  const Slice row{.rows = 1, .columns = 1003, .lane = {}, .at = {{0, 0, 1003}}};
  CHECK(sizes_of(row, 2000, 4) == std::vector<std::int64_t>{1000});
  CHECK(sizes_of(row, 400, 4) == std::vector<std::int64_t>{332, 332, 336});
  CHECK(sizes_of(row, 2000, 2000) == std::vector<std::int64_t>{1003});  // chunks of one or none
  const Slice rows{.rows = 10, .columns = 7, .lane = {}, .at = {{0, 0, 100}}};
  CHECK(sizes_of(rows, 70, 4) == std::vector<std::int64_t>{56});   // of 2 rows each
  CHECK(sizes_of(rows, 70, 12) == std::vector<std::int64_t>{70});  // of columns, which are too few
  CHECK(sizes_of({.rows = 3, .columns = 9, .lane = {}, .at = {{0, 0, 100}}}, 70, 4) ==
        std::vector<std::int64_t>{24});
}

}  // namespace kernbench::test::alike_steps_test
