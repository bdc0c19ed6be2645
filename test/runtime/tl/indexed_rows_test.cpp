// Rows that values choose: tl.index_select and tl.index_add between loads and stores.

#include <algorithm>
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

// Which rows are chosen is not known when they are loaded: they count as spread over all blocks.
TEST_CASE("rows come evenly from all blocks, each in a load of its own", "[tl][rows]") {
  for (std::size_t blocks = 1; blocks <= 8; ++blocks) {
    for (std::int64_t count = 1; count <= 10; ++count) {
      EightRows table;
      const tl::Pointer of_indices = table.k.input(Elements(10, 0.0F));
      table.k.run([&](tl::Context& tl) {
        tl::RowsInBlocks rows = table.rows();
        rows.blocks.resize(blocks);
        rows.count = static_cast<std::int64_t>(blocks);
        tl.index_select(rows, tl.load(of_indices, {count}, DType::f32));
      });
      std::vector<Bytes> loaded;
      for (const sim::OpRecord& op : table.k.torch.engine().op_log()) {
        if (op.kind == sim::OpKind::load) loaded.push_back(op.bytes);
      }
      loaded.erase(loaded.begin());  // of the indices
      CAPTURE(blocks, count);
      CHECK(loaded.size() == std::min(blocks, static_cast<std::size_t>(count)));
      const auto [least, most] = std::ranges::minmax(loaded);
      CHECK(most - least <= 8);  // a row
    }
  }
}

TEST_CASE("PEs that choose few rows each begin with the block that is theirs", "[tl][rows]") {
  RuntimeContext torch(small_topology());
  const DPPolicy by_row{.cube = Shard::row_wise, .pe = Shard::row_wise};
  const Tensor table = torch.ones({4, 100}, {.dp = by_row});
  torch.launch(
      "choose",
      [&](tl::Context& tl, tl::Pointer own) {
        tl::RowsInBlocks rows{{}, 4, 100};
        for (int pe = 0; pe < 4; ++pe) {
          rows.blocks.push_back({pe, RuntimeContext::pointer_to(table, {0, pe / 2, pe % 2})});
        }
        tl.load(own, {100}, DType::f32);
        tl.drain();
        tl.index_select(rows, tl.full({1}, 0, DType::f32));
      },
      table);
  std::vector<Time> took;
  for (const sim::OpRecord& op : torch.engine().op_log()) {
    if (op.kind == sim::OpKind::load) took.push_back(op.end - op.start);
  }
  CHECK(took == std::vector<Time>(8, took.front()));
}

}  // namespace
}  // namespace kernbench::test::indexed_rows_test
