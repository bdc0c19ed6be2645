// Rectangles of matrices in memory, as operands of products; random_program_test.cpp loads and
// stores them.

#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "test/sim_engine/values/executor_under_test.h"

namespace kernbench::sim::memory_rows_test {

namespace {

// 0, 1, 2, ...
Elements numbers(std::int64_t count) {
  Elements elements;
  for (std::int64_t i = 0; i < count; ++i) elements.push_back(static_cast<float>(i));
  return elements;
}

struct RowsUnderTest : ExecutorUnderTest {
  RegionId region = store.create_region(DType::f32, 24);  // 4 rows of 6

  Value literal(const Elements& values) { return store.literal(DType::f32, values); }
};

}  // namespace

TEST_CASE("rows outside the region are an error of ours", "[memory_store][rows]") {
  RowsUnderTest memory;
  CHECK_THROWS_AS(memory.store.load(memory.region, {7, 6, 4, 6}), InternalError);
  CHECK_THROWS_AS(memory.store.load(memory.region, {0, 6, 2, 5}), InternalError);
  CHECK_THROWS_AS(memory.store.store(memory.region, {0, 2, 3, 6}, memory.literal({1, 2})),
                  InternalError);
  const Value six = memory.literal({1, 2, 3, 4, 5, 6});
  CHECK_THROWS_AS(memory.store.store(memory.region, {12, 2, 3, 6}, six), InternalError);
}

TEST_CASE("a product reads rows where they lie, with the same bits", "[memory_store][rows][gemm]") {
  ExecutorUnderTest memory;
  const RegionId region = memory.store.create_region(DType::f16, 300 * 200);
  Elements elements = numbers(300 * 200);
  for (float& element : elements) element = element / 7 - 900;
  memory.store.store(region, 0, memory.store.literal(DType::f16, elements));
  const ElementRange at_a{1003, 90, 70, 200};
  const ElementRange at_b{57, 110, 90, 200};
  constexpr GemmSize kSize{70, 110, 90};
  const auto copied = [&](const ElementRange& range) {
    return memory.store.literal(DType::f16, memory.elements(memory.store.load(region, range)));
  };
  const Value from_copies =
      memory.store.gemm(kSize, copied(at_a), copied(at_b), Value{}, DType::f32);
  const Value in_place = memory.store.gemm(kSize, memory.store.load(region, at_a),
                                           memory.store.load(region, at_b), Value{}, DType::f32);
  const Elements expected = memory.elements(from_copies);
  CHECK(memory.computed_by_reading(in_place) == 1);  // the rows were not copied
  CHECK(memory.elements(in_place) == expected);
}

TEST_CASE("rows of another shape than the operand are copied for a product",
          "[memory_store][rows][gemm]") {
  RowsUnderTest memory;
  memory.store.store(memory.region, 0, memory.literal(numbers(24)));
  const Value block = memory.store.load(memory.region, {0, 2, 3, 6});  // [3, 2] as [2, 3]
  const Value ones = memory.store.constant(DType::f32, 3, 1);
  const Value sums = memory.store.gemm({2, 1, 3}, block, ones, Value{}, DType::f32);
  CHECK(memory.elements(sums) == Elements{0 + 1 + 6, 7 + 12 + 13});
  const Value part =
      memory.store.gemm({1, 1, 3}, memory.store.slice(block, 1, 3), ones, Value{}, DType::f32);
  CHECK(memory.elements(part) == Elements{1 + 6 + 7});
}

TEST_CASE("rows are selected by their number, and zeros where there is none",
          "[memory_store][rows]") {
  RowsUnderTest memory;
  // Rows 10 to 13 of 3 columns, in parts that end within a row; the last is a constant.
  const std::vector<Value> parts = {memory.literal({1, 2}), memory.literal({3, 4, 5, 6, 7, 8, 9}),
                                    memory.store.constant(DType::f32, 3, 5.0)};
  const IndexedRows rows{10, 4, 3};
  const Value of_f32 = memory.literal({12, 9, 10, 13, 14, -1e30F, 10, 11.5F});
  CHECK(memory.elements(memory.store.index_select(of_f32, parts, rows)) ==
        Elements{7, 8, 9, 0, 0, 0, 1, 2, 3, 5, 5, 5, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 0});
  const std::vector<std::int64_t> whole = {11, -3};
  CHECK(memory.elements(memory.store.index_select(memory.store.literal(DType::i64, whole), parts,
                                                  rows)) == Elements{4, 5, 6, 0, 0, 0});
  CHECK(memory.store.index_select(memory.literal({}), parts, rows).element_count() == 0);
}

TEST_CASE("rows are added where their index says, in f32", "[memory_store][rows]") {
  RowsUnderTest memory;
  const std::vector<Value> parts = {memory.literal({1, 2, 3}), memory.literal({4, 5, 6, 7, 8})};
  const Value indices = memory.literal({6, 5, 6, 9});  // the last row of the four belongs nowhere
  CHECK(memory.elements(memory.store.index_add(indices, parts, {5, 3, 2}, DType::f32)) ==
        Elements{3, 4, 6, 8, 0, 0});
  CHECK(memory.elements(memory.store.index_add(memory.literal({}), {}, {0, 1, 2}, DType::f32)) ==
        Elements{0, 0});
  // 2048 + 1 has no place in f16, but both sums of f32 have.
  const std::vector<Value> halves = {memory.store.literal(DType::f16, Elements{2048, 1, 1})};
  CHECK(memory.elements(memory.store.index_add(memory.literal({0, 0, 0}), halves, {0, 1, 1},
                                               DType::f16)) == Elements{2050});
}

}  // namespace kernbench::sim::memory_rows_test
