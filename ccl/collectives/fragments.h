// How the tensors of a collective are cut: in fragments that lie in one shard of each of them.
//
// A tensor is a matrix here: its rows are its last dimension, and every shard is a rectangle of it
// (DPPolicy cuts the first and the last dimension alone).  All is a pure function of shapes and
// placements, so that every rank comes to the same result.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/tensor/dp_policy.h"
#include "sim_engine/base/dtype.h"

namespace kernbench::ccl {

// The PEs at one place of all SIPs: those of one lane talk to each other.
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
  std::vector<int> summands;  // those whose sum is the value: one, unless the tensor is partial
  std::vector<Lane> holders;  // beside `copies`
};

// A tensor and how it lies in its device.
struct TensorLayout {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<Slice> slices;  // that have elements
  bool is_partial = false;

  std::size_t most_summands() const;
  std::size_t shard_count() const;  // that have elements
};

TensorLayout layout_of(const Shape& shape, const DPPolicy& dp, const Topology& topology);

// A block of a tensor that lies so, from element `first` on.
struct BlockLayout {
  std::shared_ptr<const TensorLayout> tensor;
  std::int64_t first = 0;

  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};

// Where a fragment lies in the shards of a slice: `offset` elements behind their begin, one row
// `pitch` after the other.
struct FragmentAt {
  int slice = 0;
  std::int64_t offset = 0;
  std::int64_t pitch = 0;

  friend bool operator==(const FragmentAt&, const FragmentAt&) = default;
};

// Elements of a block that lie in one slice of every tensor, as rows of equal length.  If all of
// them follow each other in every shard, it has one row.
struct Fragment {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  Lane lane;                   // that moves it
  std::vector<FragmentAt> at;  // by tensor

  std::int64_t count() const { return rows * columns; }
};

// Cuts blocks of `count` elements.  Every element is in one fragment; fragments are in the order of
// slices.
//
// The lane of a fragment holds it in the tensor with the most shards, so that as many lanes as
// there are work at once.  Where k of them hold it, each takes a k-th: all PEs have a share of the
// work of storing the copies; but none less than kLeastShare, since every share is stored in every
// copy.
inline constexpr Bytes kLeastShare = 16 << 10;
std::vector<Fragment> cut_in_fragments(std::span<const BlockLayout> blocks, std::int64_t count,
                                       DType dtype);

// The part of a fragment that is the index-th of `count`: of its elements if it has one row, else
// of its rows, or of its columns where there are fewer rows.  Sizes differ by one row or column;
// parts may be empty.
Fragment part_of(const Fragment& whole, int index, int count);

}  // namespace kernbench::ccl
