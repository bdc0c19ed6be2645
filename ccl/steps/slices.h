// Cuts the tensors of a collective into slices, each of which lies in one shard of every
// tensor.
//
// A tensor is seen as a matrix whose rows are its last dimension, and every shard is a rectangle
// of it (DPPolicy cuts only the first and the last dimension).  Everything here is a pure function
// of shapes and placements, so every rank computes the same result.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/tensor/tensor_options.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::ccl {

// The PEs at the same place of all SIPs: those of one lane exchange messages.
struct Lane {
  int cube = 0;
  int pe = 0;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

// A rectangle of a tensor, and the shards that hold it.
struct Rectangle {
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  std::int64_t first_column = 0;
  std::int64_t columns = 0;
  std::vector<int> copies;    // all shards
  std::vector<Lane> holders;  // in the order of `copies`
  std::vector<int> summands;  // shards whose sum is the value: one, unless the tensor is partial
  std::vector<Lane> summand_holders;
};

// A tensor and its placement in its device.
struct TensorLayout {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Rectangle> rectangles;  // those that have elements
  bool is_partial = false;

  std::size_t most_summands() const;
  std::size_t shard_count() const;  // that have elements
};

TensorLayout make_layout(const Shape& shape, const DPPolicy& dp, const Topology& topology);

// A block of a tensor with this layout, from element `first` on.
struct BlockLayout {
  std::shared_ptr<const TensorLayout> tensor;
  std::int64_t first = 0;

  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

// The place of a slice in the shards of a rectangle: its first element is `offset` elements after
// their begin, and its rows are `pitch` elements apart.
struct SliceAt {
  int rectangle = 0;
  std::int64_t offset = 0;
  std::int64_t pitch = 0;

  friend bool operator==(const SliceAt&, const SliceAt&) = default;
};

// Elements of a block that lie in one rectangle of every tensor, as rows of equal length.  A slice
// whose elements are consecutive in every shard has one row.
struct Slice {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  Lane lane;                // lane that moves it
  std::vector<SliceAt> at;  // by tensor

  std::int64_t count() const { return rows * columns; }
};

// Cuts blocks of `count` elements.  Every element is in one slice; slices are in the order
// of rectangles.
//
// The lane of a slice holds it in the tensor with the most shards, so that as many lanes as
// possible work at once.  If k lanes hold it, each moves a k-th of it, so that all PEs share the
// work of storing the copies; but no share is below kLeastShare, since every share is stored in
// every copy.
inline constexpr Bytes kLeastShare = 16 << 10;
// If `on_one_cube`, only lanes of the first cube that holds a slice move it.
std::vector<Slice> cut_into_slices(std::span<const BlockLayout> blocks, std::int64_t count,
                                   DType dtype, bool on_one_cube = false);

// Returns chunks [begin, end) of the `count` chunks of a slice: of its elements if it has one row,
// else of its rows, or of its columns if there are fewer rows than chunks.  Chunks differ by one
// row or column; they may be empty.
Slice slice_of_chunks(const Slice& whole, int begin, int end, int count);

// Returns the slice without the elements, rows or columns by which some of its `count` chunks would
// be larger than others; all of it if there are fewer than chunks.
Slice equal_chunks_of(Slice whole, int count);

// The same without the list of places, for what is done once for each message.
struct ChunkExtent {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t skipped = 0;  // rows, or columns, before it
  bool is_by_rows = false;

  std::int64_t count() const { return rows * columns; }
  // The place of the chunks if the slice lies at `whole`.
  SliceAt at(const SliceAt& whole) const {
    return {whole.rectangle, whole.offset + skipped * (is_by_rows ? whole.pitch : 1),
            rows == 1 ? columns : whole.pitch};
  }
};
ChunkExtent extent_of_chunks(const Slice& whole, int begin, int end, int count);

// The number of elements before a chunk, in a slice of one row or at least as many as chunks.
std::int64_t elements_before(const Slice& whole, int chunk, int count);

}  // namespace kernbench::ccl
