// Cuts the tensors of a collective into fragments, each of which lies in one shard of every
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
struct Slice {
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
  std::vector<Slice> slices;  // those that have elements
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

// The place of a fragment in the shards of a slice: its first element is `offset` elements after
// their begin, and its rows are `pitch` elements apart.
struct FragmentAt {
  int slice = 0;
  std::int64_t offset = 0;
  std::int64_t pitch = 0;

  friend bool operator==(const FragmentAt&, const FragmentAt&) = default;
};

// Elements of a block that lie in one slice of every tensor, as rows of equal length.  A fragment
// whose elements are consecutive in every shard has one row.
struct Fragment {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  Lane lane;                   // lane that moves it
  std::vector<FragmentAt> at;  // by tensor

  std::int64_t count() const { return rows * columns; }
};

// Cuts blocks of `count` elements.  Every element is in one fragment; fragments are in the order
// of slices.
//
// The lane of a fragment holds it in the tensor with the most shards, so that as many lanes as
// possible work at once.  If k lanes hold it, each moves a k-th of it, so that all PEs share the
// work of storing the copies; but no share is below kLeastShare, since every share is stored in
// every copy.
inline constexpr Bytes kLeastShare = 16 << 10;
// If `on_one_cube`, only lanes of the first cube that holds a fragment move it.
std::vector<Fragment> cut_in_fragments(std::span<const BlockLayout> blocks, std::int64_t count,
                                       DType dtype, bool on_one_cube = false);

// Returns units [begin, end) of the `count` units of a fragment: of its elements if it has one row,
// else of its rows, or of its columns if there are fewer rows than units.  Units differ by one row
// or column; they may be empty.
Fragment make_part(const Fragment& whole, int begin, int end, int count);

// The same without the list of places, for what is done once for each message.
struct PartSize {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t skipped = 0;  // rows, or columns, before it
  bool is_by_rows = false;

  std::int64_t count() const { return rows * columns; }
  // The place of the part if the whole lies at `whole`.
  FragmentAt at(const FragmentAt& whole) const {
    return {whole.slice, whole.offset + skipped * (is_by_rows ? whole.pitch : 1),
            rows == 1 ? columns : whole.pitch};
  }
};
PartSize size_of_part(const Fragment& whole, int begin, int end, int count);

// The number of elements before a unit, in a fragment of one row or at least as many as units.
std::int64_t elements_before(const Fragment& whole, int unit, int count);

}  // namespace kernbench::ccl
