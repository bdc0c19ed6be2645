// How blocks are cut, checked element by element against the shards themselves.

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "ccl/steps/cut_cache.h"
#include "test/ccl/all_reduce_under_test.h"
#include "test/ccl/group_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::slices_test {
namespace {

using ccl::BlockLayout;
using ccl::Slice;
using ccl::SliceAt;

struct Side {
  Shape shape;
  DPPolicy dp;
  std::int64_t first = 0;
};

const Topology kTopology = round_topology(SipTopology::ring_1d, 2, 1, 2, 1);

// For every element of the block, the position in the shards where a slice has it.
std::map<std::int64_t, int> visits(const std::vector<Side>& sides, std::int64_t count,
                                   std::int64_t most = std::int64_t{1} << 40) {
  std::vector<BlockLayout> blocks;
  std::vector<std::vector<ShardInfo>> shards;
  for (const Side& side : sides) {
    blocks.push_back({std::make_shared<const ccl::TensorLayout>(
                          ccl::make_layout(side.shape, side.dp, kTopology)),
                      side.first});
    shards.push_back(place(side.dp, side.shape, kTopology, 0));
  }
  std::vector<Slice> slices;
  for (const Slice& slice : ccl::cut_into_slices(blocks, count, DType::f32)) {
    ccl::append_slices(slices, slice, {.most = most});
  }
  std::map<std::int64_t, int> seen;
  for (const Slice& slice : slices) {
    CHECK(slice.count() <= most);
    for (std::int64_t row = 0; row < slice.rows; ++row) {
      for (std::int64_t column = 0; column < slice.columns; ++column) {
        std::set<std::int64_t> in_block;  // as each copy on each side has it
        for (std::size_t i = 0; i < sides.size(); ++i) {
          const SliceAt& at = slice.at[i];
          const ccl::Rectangle& rectangle =
              blocks[i].tensor->rectangles[static_cast<std::size_t>(at.rectangle)];
          for (const int copy : rectangle.copies) {
            const auto positions =
                positions_of(shards[i][static_cast<std::size_t>(copy)], sides[i].shape);
            const auto position = static_cast<std::size_t>(at.offset + row * at.pitch + column);
            in_block.insert(positions.at(position) - sides[i].first);
          }
        }
        REQUIRE(in_block.size() == 1);
        ++seen[*in_block.begin()];
      }
    }
  }
  return seen;
}

void check_once_each(const std::vector<Side>& sides, std::int64_t count,
                     std::int64_t most = std::int64_t{1} << 40) {
  const auto seen = visits(sides, count, most);
  CHECK(static_cast<std::int64_t>(seen.size()) == count);
  for (const auto& [position, times] : seen) {
    CHECK(position >= 0);
    CHECK(position < count);
    CHECK(times == 1);
  }
}

TEST_CASE("every element of a block is in one slice, at its place on every side", "[ccl][slices]") {
  // A block of 60 elements in matrices of different widths, from different elements on.
  const std::vector<std::pair<Shape, std::int64_t>> blocks = {
      {{60}, 0},     {{6, 10}, 0},  {{10, 6}, 0},  {{3, 4, 5}, 0}, {{130}, 7},
      {{9, 10}, 13}, {{20, 6}, 12}, {{2, 60}, 60}, {{7, 11}, 3},
  };
  std::size_t number = 0;
  for (const auto& [shape, first] : blocks) {
    for (const auto& [other_shape, other_first] : blocks) {
      for (int turn = 0; turn < 3; ++turn, ++number) {
        const DPPolicy& dp = placements()[number % placements().size()];
        const DPPolicy& other = placements()[number * 7 / 3 % placements().size()];
        CAPTURE(to_string(shape), first, to_string(dp), to_string(other_shape), other_first,
                to_string(other));
        check_once_each({{shape, dp, first}, {other_shape, other, other_first}}, 60);
        check_once_each({{shape, dp, first}, {other_shape, other, other_first}}, 60, 4);
      }
    }
  }
}

TEST_CASE("a tensor that lies alike on both sides is cut by shards, each of one row",
          "[ccl][slices]") {
  const DPPolicy dp{.cube = Shard::column_wise, .pe = Shard::row_wise};
  const auto tensor =
      std::make_shared<const ccl::TensorLayout>(ccl::make_layout({8, 6}, dp, kTopology));
  const auto slices =
      ccl::cut_into_slices(std::vector<BlockLayout>{{tensor, 0}, {tensor, 0}}, 48, DType::f32);
  REQUIRE(slices.size() == 4);
  CHECK(tensor->shard_count() == 4);
  for (const Slice& slice : slices) {
    CHECK(slice.rows == 1);
    CHECK(slice.columns == 12);
    CHECK(slice.at.front() == slice.at.back());
  }
}

TEST_CASE("copies share the work in shares of 16 KiB at least", "[ccl][slices]") {
  const auto lanes_of = [](std::int64_t count) {
    const auto tensor =
        std::make_shared<const ccl::TensorLayout>(ccl::make_layout({count}, DPPolicy{}, kTopology));
    std::set<ccl::Lane> lanes;
    for (const Slice& slice :
         ccl::cut_into_slices(std::vector<BlockLayout>{{tensor, 0}}, count, DType::f32)) {
      lanes.insert(slice.lane);
    }
    return lanes.size();
  };
  CHECK(lanes_of(1) == 1);
  CHECK(lanes_of(2 * 4096 - 1) == 1);
  CHECK(lanes_of(2 * 4096) == 2);
  CHECK(lanes_of(4 * 4096) == 4);
  CHECK(lanes_of(400 * 4096) == 4);  // PEs
}

TEST_CASE("slices of a slice differ by one row or column", "[ccl][slices]") {
  const Slice row{1, 10, {}, {{0, 3, 10}}};
  CHECK(ccl::slice_of_chunks(row, 0, 1, 3).columns == 3);
  CHECK(ccl::slice_of_chunks(row, 2, 3, 3).columns == 4);
  CHECK(ccl::slice_of_chunks(row, 2, 3, 3).at.front() == SliceAt{0, 3 + 6, 4});
  CHECK(ccl::slice_of_chunks(row, 0, 2, 3).columns == 6);
  CHECK(ccl::slice_of_chunks(row, 0, 1, 11).count() == 0);
  CHECK(ccl::elements_before(row, 2, 3) == 6);
  const Slice rows{5, 4, {}, {{0, 3, 9}}};
  CHECK(ccl::slice_of_chunks(rows, 1, 2, 2).rows == 3);
  CHECK(ccl::slice_of_chunks(rows, 1, 2, 2).at.front() == SliceAt{0, 3 + 2 * 9, 9});
  CHECK(ccl::elements_before(rows, 1, 2) == 2 * 4);
  CHECK(ccl::slice_of_chunks(rows, 2, 4, 6).columns == 1);  // fewer rows than chunks: by columns
  CHECK(ccl::slice_of_chunks(rows, 2, 4, 6).at.front() == SliceAt{0, 3 + 1, 9});
}

TEST_CASE("slices that are joined again are consecutive elements", "[ccl][slices]") {
  const Slice rows{3, 8, {}, {{0, 0, 9}}};
  std::vector<Slice> slices;
  ccl::append_slices(slices, rows, {.most = 100, .chunk_count = 6, .is_joined = true});
  CHECK(slices.size() == 3);
  for (const Slice& slice : slices) CHECK(slice.rows == 1);
  slices.clear();
  ccl::append_slices(slices, rows, {.most = 100, .chunk_count = 3, .is_joined = true});
  CHECK(slices.size() == 1);
}

TEST_CASE("what was asked for lately is remembered, and no more than twice as much",
          "[ccl][cuts]") {
  ccl::RecentMap<int, int, 4> recent;
  for (int key = 0; key < 100; ++key) {
    CHECK(recent[key] == 0);  // is new
    recent[key] = key + 1000;
    for (int back = 0; back < 4 && back <= key; ++back)
      CHECK(recent[key - back] == key - back + 1000);
    CHECK(recent.size() <= 8);
  }
  CHECK(recent[0] == 0);  // forgotten
}

TEST_CASE("equal blocks are cut once, and old cuts are forgotten", "[ccl][cuts]") {
  ccl::CutCache cache(kTopology);
  RuntimeContext torch(kTopology);
  const Tensor x = torch.zeros({64, 8});
  const Tensor like_x = torch.zeros({64, 8});
  const auto cut = [&](const Tensor& tensor, std::int64_t first) {
    return cache.cut({{cache.find_layout(tensor), first}}, 8, DType::f32, {.most = 8});
  };
  CHECK(cut(x, 8) == cut(like_x, 8));
  CHECK(cut(x, 8) != cut(x, 16));
  const std::shared_ptr<const ccl::Cut> kept = cut(x, 8);
  for (std::int64_t count = 1; count < 50'000; ++count) {
    cache.cut({{kept->layouts.front().tensor, 0}}, count % 512, DType::f32, {.most = count});
  }
  CHECK(cache.size() <= 2 * (16384 + 1024));
  CHECK(cut(x, 8) != kept);
}

}  // namespace
}  // namespace kernbench::test::slices_test
