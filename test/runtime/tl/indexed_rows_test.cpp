// Rows that values choose: tl.index_select and tl.index_add between loads and stores.

#include <catch2/catch.hpp>

#include "test/runtime/tl/tl_under_test.h"

namespace kernbench::test::indexed_rows_test {
namespace {

// 8 rows of 2, of which each lies in a block of its own.
struct EightRows {
  TlUnderTest k;
  tl::Pointer data = k.input({0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71});
  tl::Pointer of_indices = k.input({6, 1, 6});

  tl::RowsInBlocks rows() const {
    tl::RowsInBlocks all{{}, 8, 2};
    for (std::int64_t row = 0; row < all.count; ++row) all.blocks.push_back({row, data + 2 * row});
    return all;
  }
};

TEST_CASE("rows are chosen after the stores before them, and before those that follow",
          "[tl][rows]") {
  EightRows table;
  const Elements selected = table.k.result([&](tl::Context& tl) {
    const tl::Tensor indices = tl.load(table.of_indices, {3}, DType::f32);
    tl.store(table.data + 2 * 6, tl.full({2}, -6.0, DType::f32));
    const tl::Tensor chosen = tl.index_select(table.rows(), indices);
    tl.store(table.data, tl.full({16}, 99.0, DType::f32));
    return chosen;
  });
  CHECK(selected == Elements{-6, -6, 10, 11, -6, -6});
}

TEST_CASE("rows are added after the stores before them, and before those that follow",
          "[tl][rows]") {
  EightRows table;
  const Elements sums = table.k.result([&](tl::Context& tl) {
    tl::RowsInBlocks added = table.rows();
    added.blocks.resize(3);
    added.count = 3;
    const tl::Tensor indices = tl.load(table.of_indices, {3}, DType::f32);
    tl.store(table.data + 2 * 2, tl.full({2}, -2.0, DType::f32));
    const tl::Tensor sum = tl.index_add(added, indices, 5, 3, 1);
    tl.store(table.data, tl.full({6}, 99.0, DType::f32));
    return sum;
  });
  CHECK(sums == Elements{0, 0, -2, -1, 0, 0});
}

TEST_CASE("no index chooses no row", "[tl][rows]") {
  EightRows table;
  const Elements selected = table.k.result(
      [&](tl::Context& tl) { return tl.index_select(table.rows(), tl.arange(0, 0)); });
  CHECK(selected.empty());
}

}  // namespace
}  // namespace kernbench::test::indexed_rows_test
