// The arguments of tl.composite, a tiled matrix product.

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/tl/values.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::tl {

using sim::Activation;

struct CheckedBlocks;

// Where the rows of a matrix of tl.composite lie, from `row` on.
struct RowBlock {
  std::int64_t row = 0;
  Pointer pointer;
};

// Rows of a matrix of one type in HBM, each behind the one before, in blocks on one PE or several.
struct RowsInBlocks {
  std::vector<RowBlock> blocks;  // in the order of rows, the first from row 0 on
  std::int64_t count = 0;
  std::int64_t columns = 0;

  // Calls use(pointer, row, rows) for each block.
  template <class Use>
  void for_each(const Use& use) const {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t end = i + 1 < blocks.size() ? blocks[i + 1].row : count;
      use(blocks[i].pointer, blocks[i].row, end - blocks[i].row);
    }
  }
};

// The blocks of a matrix of tl.composite behind its first one, in the order of rows.  Copies share
// one list, which is checked once: a kernel whose PEs read the same rows makes it before the
// launch.  A list belongs to one RuntimeContext, since it keeps the result of its check.
class FurtherBlocks {
 public:
  FurtherBlocks() = default;
  FurtherBlocks(std::vector<RowBlock> blocks);
  FurtherBlocks(std::initializer_list<RowBlock> blocks)
      : FurtherBlocks(std::vector<RowBlock>(blocks)) {}

  // The same rows, from `columns` further on.
  FurtherBlocks operator+(std::int64_t columns) const {
    FurtherBlocks moved = *this;
    moved.column_ += columns;
    return moved;
  }

  std::size_t size() const { return list_ == nullptr ? 0 : list_->blocks.size(); }
  bool empty() const { return size() == 0; }
  RowBlock operator[](std::size_t index) const {
    const RowBlock& block = list_->blocks[index];
    return {block.row, block.pointer + column_};
  }

 private:
  friend class Context;
  struct List {
    std::vector<RowBlock> blocks;
    // The result of the latest check.
    mutable std::shared_ptr<const CheckedBlocks> checked = nullptr;
  };

  std::shared_ptr<const List> list_;  // null: none
  std::int64_t column_ = 0;           // from the list's pointers on
};

// The arguments of tl.composite: c = activation(scale (a b) + bias), a tiled matrix product.
//
// a is [m, k], b [k, n], c [m, n] and bias [n], row by row.  A pitch is the distance in elements
// between the beginnings of two rows, for matrices that are parts of wider ones; 0 means that rows
// are adjacent.  A tile size of 0 is chosen by sim::choose_tile().
//
// The rows of a matrix may lie in several blocks, on different PEs: `a`, `b` or `c` points to the
// first of them.  A transposed operand lies in memory as [k, m] or [n, k]; its pitch and its blocks
// are those of these rows.  PE_GEMM reads its tiles by columns, as fast as others.
//
// The PEs of a launch that compute with the same rows of a, or columns of b, may share it: its
// tiles come by way of the SRAM of cubes, where they stay a while, and are read from HBM once
// (sim::SharedTiles).  The numbers of readers decide the tiles that are chosen, not the result.
struct CompositeGemm {
  struct Readers {
    int in_cube = 0;  // PEs of this PE's cube that share the operand; 0: it takes its tiles itself
    int in_launch = 0;  // those of the whole launch
  };

  Pointer a;
  Pointer b;
  Pointer c;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t a_pitch = 0;
  std::int64_t b_pitch = 0;
  std::int64_t c_pitch = 0;
  std::int64_t tile_m = 0;
  std::int64_t tile_n = 0;
  std::int64_t tile_k = 0;
  double scale = 1;
  std::optional<Pointer> bias = std::nullopt;
  Activation activation = Activation::none;
  std::optional<DType> out_dtype = std::nullopt;  // if given, it must be c's
  FurtherBlocks a_further = {};
  FurtherBlocks b_further = {};
  FurtherBlocks c_further = {};
  Readers a_readers = {};
  Readers b_readers = {};
  bool transpose_a = false;
  bool transpose_b = false;
};

}  // namespace kernbench::tl
