#include "ccl/steps/slices.h"

#include <algorithm>

#include "sim_engine/base/check.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::ccl {

namespace {

using sim::ElementRange;

// The elements of a block that lie in a rectangle.
struct RectangleRange {
  ElementRange elements;  // of the block
  int rectangle = 0;
};

ElementRange range_of(std::int64_t begin, std::int64_t end) {
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

void add(std::vector<ElementRange>& ranges, const ElementRange& range) {
  if (range.count() > 0) ranges.push_back(range.simplified());
}

// Adds the elements of rows that lie in [begin, end): some of the first row, whole rows, and some
// of the last.
void add_clipped(std::vector<ElementRange>& ranges, const ElementRange& rows, std::int64_t begin,
                 std::int64_t end) {
  std::int64_t whole_begin = rows.rows;  // the first whole row in the range, and behind the last
  std::int64_t whole_end = 0;
  if (rows.rows == 1) {
    return add(ranges, range_of(std::max(rows.begin, begin), std::min(rows.end(), end)));
  }
  const auto floor_div = [](std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); };
  whole_begin = std::clamp<std::int64_t>(-floor_div(rows.begin - begin, rows.pitch), 0, rows.rows);
  whole_end = std::clamp<std::int64_t>(floor_div(end - rows.columns - rows.begin, rows.pitch) + 1,
                                       0, rows.rows);
  const auto add_row = [&](std::int64_t i) {
    const ElementRange row = rows.row(i);
    add(ranges, range_of(std::max(row.begin, begin), std::min(row.end(), end)));
  };
  if (whole_begin >= whole_end) {  // at most the ends of two rows
    for (std::int64_t i = std::max<std::int64_t>(whole_end - 1, 0);
         i <= std::min(whole_begin, rows.rows - 1); ++i) {
      add_row(i);
    }
    return;
  }
  if (whole_begin > 0) add_row(whole_begin - 1);
  add(ranges,
      {rows.begin + whole_begin * rows.pitch, rows.columns, whole_end - whole_begin, rows.pitch});
  if (whole_end < rows.rows) add_row(whole_end);
}

// Adds the common elements of rows with the same pitch: two rectangles of one matrix, of which b's
// may wrap around.
void add_common_rows(std::vector<ElementRange>& ranges, const ElementRange& a,
                     const ElementRange& b) {
  const std::int64_t pitch = a.pitch;
  std::int64_t down = (b.begin - a.begin) / pitch;
  std::int64_t right = (b.begin - a.begin) % pitch;
  if (right < 0) {
    right += pitch;
    --down;
  }
  for (const std::int64_t wrapped : {0, 1}) {
    const std::int64_t first_row = std::max<std::int64_t>(down + wrapped, 0);
    const std::int64_t last_row = std::min(a.rows, down + wrapped + b.rows);
    const std::int64_t shift = right - wrapped * pitch;
    const std::int64_t first_column = std::max<std::int64_t>(shift, 0);
    const std::int64_t last_column = std::min(a.columns, shift + b.columns);
    if (first_row >= last_row || first_column >= last_column) continue;
    add(ranges, {a.begin + first_row * pitch + first_column, last_column - first_column,
                 last_row - first_row, pitch});
  }
}

void add_common(std::vector<ElementRange>& ranges, const ElementRange& a, const ElementRange& b) {
  // Most pairs of rectangles have nothing in common, and this test leaves them out cheaply.
  if (a.begin >= b.end() || b.begin >= a.end()) return;
  if (b.rows == 1) return add_clipped(ranges, a, b.begin, b.end());
  if (a.rows == 1) return add_clipped(ranges, b, a.begin, a.end());
  if (a.pitch == b.pitch) return add_common_rows(ranges, a, b);
  for (std::int64_t i = 0; i < b.rows; ++i) {
    add_clipped(ranges, a, b.row(i).begin, b.row(i).end());
  }
}

std::vector<RectangleRange> list_ranges(const BlockLayout& block, std::int64_t count) {
  const TensorLayout& tensor = *block.tensor;
  std::vector<RectangleRange> all;
  for (std::size_t i = 0; i < tensor.rectangles.size(); ++i) {
    const Rectangle& rectangle = tensor.rectangles[i];
    const ElementRange in_tensor =
        ElementRange{rectangle.first_row * tensor.columns + rectangle.first_column,
                     rectangle.columns, rectangle.rows, tensor.columns}
            .simplified();
    std::vector<ElementRange> ranges;
    add_clipped(ranges, in_tensor, block.first, block.first + count);
    for (ElementRange range : ranges) {
      range.begin -= block.first;
      all.push_back({range, static_cast<int>(i)});
    }
  }
  return all;
}

// Converts a position in the whole tensor to one in the shards of a rectangle.
std::int64_t position_in(const TensorLayout& tensor, const Rectangle& rectangle,
                         std::int64_t position) {
  return (position / tensor.columns - rectangle.first_row) * rectangle.columns +
         position % tensor.columns - rectangle.first_column;
}

SliceAt locate(const BlockLayout& block, int rectangle_index, const ElementRange& range) {
  const Rectangle& rectangle = block.tensor->rectangles[static_cast<std::size_t>(rectangle_index)];
  const std::int64_t begin = block.first + range.begin;
  const std::int64_t offset = position_in(*block.tensor, rectangle, begin);
  if (range.rows == 1) return {rectangle_index, offset, range.columns};
  return {rectangle_index, offset,
          position_in(*block.tensor, rectangle, begin + range.pitch) - offset};
}

// A slice under construction: its elements, and its rectangle in each tensor so far.
struct Found {
  ElementRange elements;
  std::vector<int> rectangles;
};

// Intersects the ranges of all blocks: each pass splits the slices at one more block's rectangles.
std::vector<Found> common_ranges(std::span<const BlockLayout> blocks, std::int64_t count) {
  std::vector<Found> found;
  for (const RectangleRange& range : list_ranges(blocks.front(), count)) {
    found.push_back({range.elements, {range.rectangle}});
  }
  // A slice must lie in one rectangle of every tensor, because a step loads from and stores to one
  // shard range each.
  for (const BlockLayout& block : blocks.subspan(1)) {
    std::vector<Found> finer;
    const std::vector<RectangleRange> others = list_ranges(block, count);
    for (const Found& coarse : found) {
      for (const RectangleRange& other : others) {
        std::vector<ElementRange> common;
        add_common(common, coarse.elements, other.elements);
        for (const ElementRange& range : common) {
          finer.push_back({range, coarse.rectangles});
          finer.back().rectangles.push_back(other.rectangle);
        }
      }
    }
    found = std::move(finer);
  }
  return found;
}

Slice make_slice(std::span<const BlockLayout> blocks, const Found& found) {
  Slice slice{found.elements.rows, found.elements.columns, {}, {}};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    slice.at.push_back(locate(blocks[i], found.rectangles[i], found.elements));
  }
  // Rows that follow each other without gaps in every tensor become one long row, which is one load
  // and one store instead of one per row.
  const bool is_contiguous =
      std::ranges::all_of(slice.at, [&](const SliceAt& at) { return at.pitch == slice.columns; });
  if (is_contiguous) {
    slice.columns = slice.count();
    slice.rows = 1;
    for (SliceAt& at : slice.at) at.pitch = slice.columns;
  }
  return slice;
}

}  // namespace

std::size_t TensorLayout::most_summands() const {
  std::size_t most = 1;
  for (const Rectangle& rectangle : rectangles) most = std::max(most, rectangle.summands.size());
  return most;
}

std::size_t TensorLayout::shard_count() const {
  std::size_t count = 0;
  for (const Rectangle& rectangle : rectangles) count += rectangle.copies.size();
  return count;
}

TensorLayout make_layout(const Shape& shape, const DPPolicy& dp, const Topology& topology) {
  const bool is_scalar = shape.rank() == 0;
  TensorLayout layout;
  layout.columns = is_scalar ? 1 : shape[shape.rank() - 1];
  layout.rows = layout.columns == 0 ? 0 : shape.numel() / layout.columns;
  layout.is_partial = dp.cube == Shard::partial || dp.pe == Shard::partial;
  const auto is_copied = [&](Shard shard) {
    return shard == Shard::replicate || (is_sharded(shard) && is_scalar);
  };
  const std::vector<ShardInfo> shards = place(dp, shape, topology, 0);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const ShardInfo& shard = shards[i];
    // A tensor with fewer rows than holders leaves the last holders without elements.
    if (shard.shape.numel() == 0) continue;
    Rectangle rectangle;
    rectangle.columns = is_scalar ? 1 : shard.shape[shape.rank() - 1];
    rectangle.rows = shard.shape.numel() / rectangle.columns;
    rectangle.first_column = is_scalar ? 0 : shard.offset.back();
    if (shape.rank() > 1) rectangle.first_row = layout.rows / shape[0] * shard.offset.front();
    auto same = std::ranges::find_if(layout.rectangles, [&](const Rectangle& other) {
      return other.first_row == rectangle.first_row && other.first_column == rectangle.first_column;
    });
    if (same == layout.rectangles.end()) same = layout.rectangles.insert(same, rectangle);
    same->copies.push_back(static_cast<int>(i));
    same->holders.push_back({shard.cube, shard.pe});
    // Only the first of several copies of a summand counts.
    const bool counts =
        (shard.cube == 0 || !is_copied(dp.cube)) && (shard.pe == 0 || !is_copied(dp.pe));
    if (!counts) continue;
    same->summands.push_back(static_cast<int>(i));
    same->summand_holders.push_back({shard.cube, shard.pe});
  }
  return layout;
}

std::vector<Slice> cut_into_slices(std::span<const BlockLayout> blocks, std::int64_t count,
                                   DType dtype, bool on_one_cube) {
  if (count == 0) return {};
  // The tensor with the most shards decides on the lanes: its PEs share the work, and the others'
  // shards are read and written from there.
  const auto widest = std::ranges::max_element(
      blocks, {}, [](const BlockLayout& block) { return block.tensor->shard_count(); });
  const auto leading = static_cast<std::size_t>(widest - blocks.begin());
  std::vector<Slice> slices;
  std::int64_t total = 0;
  for (const Found& found : common_ranges(blocks, count)) {
    const Slice whole = make_slice(blocks, found);
    std::vector<Lane> holders =
        widest->tensor->rectangles[static_cast<std::size_t>(found.rectangles[leading])].holders;
    if (on_one_cube) {
      std::erase_if(holders,
                    [cube = holders.front().cube](const Lane& l) { return l.cube != cube; });
    }
    // Holders of copies share a slice, but a share of less than kLeastShare would cost more for
    // its messages than for its bytes.
    const auto shares = std::clamp<std::int64_t>(whole.count() * size_of(dtype) / kLeastShare, 1,
                                                 static_cast<std::int64_t>(holders.size()));
    for (int i = 0; i < shares; ++i) {
      Slice share = slice_of_chunks(whole, i, i + 1, static_cast<int>(shares));
      if (share.count() == 0) continue;
      share.lane = holders[static_cast<std::size_t>(i)];
      total += share.count();
      slices.push_back(std::move(share));
    }
  }
  KB_CHECK(total == count, "{} of {} elements are in slices", total, count);
  return slices;
}

namespace {

bool is_cut_by_rows(const Slice& whole, int count) {
  return whole.rows >= count && whole.rows > 1;
}

}  // namespace

ChunkExtent extent_of_chunks(const Slice& whole, int begin, int end, int count) {
  ChunkExtent extent{whole.rows, whole.columns, 0, is_cut_by_rows(whole, count)};
  const std::int64_t size = extent.is_by_rows ? whole.rows : whole.columns;
  // Both ends are rounded down in the same way, so that neighbouring chunks meet without a gap or
  // an overlap.
  extent.skipped = size * begin / count;
  (extent.is_by_rows ? extent.rows : extent.columns) = size * end / count - extent.skipped;
  return extent;
}

Slice slice_of_chunks(const Slice& whole, int begin, int end, int count) {
  const ChunkExtent size = extent_of_chunks(whole, begin, end, count);
  Slice slice{size.rows, size.columns, whole.lane, {}};
  for (const SliceAt& at : whole.at) slice.at.push_back(size.at(at));
  return slice;
}

Slice equal_chunks_of(Slice whole, int count) {
  std::int64_t& size = is_cut_by_rows(whole, count) ? whole.rows : whole.columns;
  if (size > count) size -= size % count;
  return whole;
}

std::int64_t elements_before(const Slice& whole, int chunk, int count) {
  if (is_cut_by_rows(whole, count)) return whole.rows * chunk / count * whole.columns;
  return whole.columns * chunk / count;
}

}  // namespace kernbench::ccl
