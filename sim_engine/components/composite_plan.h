// The plan of a composite command: it computes a matrix product that is larger than scratch, tile
// by tile.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/matrix_regions.h"

namespace kernbench::sim {

// A matrix in HBM, row by row; rows may be parts of longer ones.
struct MatrixAt {
  DeviceBuffer buffer;
  std::int64_t begin = 0;  // its first element
  std::int64_t pitch = 0;  // from one row's first element to the next's
  // True for a block that lies in the slice of HBM of the block before it, so that one transfer
  // moves both.
  bool joins_previous = false;

  // `rows` x `columns` elements at (row, column).
  ElementRange block(std::int64_t row, std::int64_t column, std::int64_t rows,
                     std::int64_t columns) const {
    return {begin + row * pitch + column, columns, rows, pitch};
  }
};

// A block of a matrix behind its first one.
struct FurtherBlock {
  std::int64_t row;  // the first of its rows in the memory of the whole
  MatrixAt at;
};

// The blocks behind the first one, ascending, and the regions of all.  PEs of a launch that read
// the same rows refer to one list, since there may be as many blocks as PEs; so nobody changes it.
struct FurtherBlocks {
  std::vector<FurtherBlock> blocks;
  std::shared_ptr<const MatrixRegions> regions = nullptr;  // null if only the time is asked for
};

// A matrix of the product, whose rows may lie in several blocks, on different PEs.  A transposed
// one has the operand's columns as rows in memory, and what is said of rows holds for those.
struct OperandAt : MatrixAt {
  // The PEs that compute with the same tiles: those of this PE's cube, and those of the launch.
  struct Readers {
    int in_cube = 0;  // 0: the PE takes its tiles from HBM, not by way of SharedTiles
    int in_launch = 0;
  };

  std::shared_ptr<const FurtherBlocks> list = nullptr;  // null if there is one block alone
  std::int64_t first_column = 0;  // column 0 of the operand in the rows of `list`
  Readers readers = {};
  bool is_transposed = false;

  bool is_shared() const { return readers.in_cube > 0; }
  std::span<const FurtherBlock> further() const {
    return list == nullptr ? std::span<const FurtherBlock>{} : list->blocks;
  }
  // The transfers that all rows take beyond the first one.
  std::int64_t further_transfers() const {
    return std::ranges::count_if(
        further(), [](const FurtherBlock& block) { return !block.at.joins_previous; });
  }

  // A rectangle of the matrix as it lies in memory.
  struct Rows {
    std::size_t block = 0;  // that the first one lies in: 0 is the matrix, 1 the first further one
    std::int64_t row = 0;
    std::int64_t column = 0;
    std::int64_t rows = 0;
    std::int64_t columns = 0;

    std::int64_t count() const { return rows * columns; }
  };
  // Returns the rectangle of `rows` x `columns` elements of the operand at (row, column).
  Rows rows_at(std::int64_t row, std::int64_t column, std::int64_t rows,
               std::int64_t columns) const {
    if (is_transposed) {
      std::swap(row, column);
      std::swap(rows, columns);
    }
    const auto behind = std::ranges::upper_bound(further(), row, {}, &FurtherBlock::row);
    return {static_cast<std::size_t>(behind - further().begin()), row, column, rows, columns};
  }

  const MatrixAt& matrix_of(std::size_t block) const {
    return block == 0 ? *this : list->blocks[block - 1].at;
  }
  ElementRange in_first_block(const Rows& rows) const {
    const std::int64_t stop = end_of(rows.block, rows.row + rows.rows);
    if (rows.block == 0) return block(rows.row, rows.column, stop - rows.row, rows.columns);
    const FurtherBlock& further = list->blocks[rows.block - 1];
    return further.at.block(rows.row - further.row, first_column + rows.column, stop - rows.row,
                            rows.columns);
  }

  // Calls use(matrix, elements) for what each block has of the rows, in their order.
  template <class Use>
  void for_each_part(Rows left, const Use& use) const {
    const std::int64_t end = left.row + left.rows;
    for (; left.row < end; ++left.block) {
      use(matrix_of(left.block), in_first_block(left));
      left.row = end_of(left.block, end);
      left.rows = end - left.row;
    }
  }

  // Calls use(rows) for each transfer of the rows, in their order.
  template <class Use>
  void for_each_transfer(Rows left, const Use& use) const {
    const std::int64_t end = left.row + left.rows;
    while (left.row < end) {
      std::size_t last = left.block;
      while (end_of(last, end) < end && list->blocks[last].at.joins_previous) ++last;
      const std::int64_t stop = end_of(last, end);
      use(Rows{left.block, left.row, left.column, stop - left.row, left.columns});
      left.row = stop;
      left.block = last + 1;
    }
  }

 private:
  std::int64_t end_of(std::size_t block, std::int64_t most) const {
    const std::span<const FurtherBlock> blocks = further();
    return block < blocks.size() ? std::min(most, blocks[block].row) : most;
  }
};

// c = activation(scale (a b) + bias), with the products summed and the rest computed in f32, and
// one rounding to c's type.
struct CompositePlan {
  GemmSize size;
  GemmSize tile;  // edges have smaller ones
  OperandAt a;
  OperandAt b;
  OperandAt c;
  std::optional<MatrixAt> bias;  // one row of n
  float scale = 1;
  Activation activation = Activation::none;

  bool has_epilogue() const {
    return bias.has_value() || scale != 1 || activation != Activation::none;
  }
};

// Elements of a region that a command accesses.
struct MemoryUse {
  RegionId region;
  ElementRange elements;
  bool writes;
};
// Calls use(operand, rows, columns, writes) for each matrix of the product, of `rows` x `columns`.
template <class Use>
void for_each_operand(const CompositePlan& plan, const Use& use) {
  const auto& [m, n, k] = plan.size;
  use(plan.a, m, k, false);
  use(plan.b, k, n, false);
  use(plan.c, m, n, true);
}
// Calls use(MemoryUse) for each block of `rows` x `columns` elements of the operand.
template <class Use>
void for_each_block_use(const OperandAt& operand, std::int64_t rows, std::int64_t columns,
                        bool writes, const Use& use) {
  operand.for_each_part(operand.rows_at(0, 0, rows, columns),
                        [&](const MatrixAt& matrix, const ElementRange& elements) {
                          use(MemoryUse{matrix.buffer.region, elements.simplified(), writes});
                        });
}
template <class Use>
void use_bias(const CompositePlan& plan, const Use& use) {
  if (!plan.bias) return;
  const ElementRange elements = plan.bias->block(0, 0, 1, plan.size.n).simplified();
  use(MemoryUse{plan.bias->buffer.region, elements, false});
}
// Calls use(MemoryUse) for each block that a matrix lies in, as often as count_memory_uses() says.
template <class Use>
void for_each_memory_use(const CompositePlan& plan, const Use& use) {
  for_each_operand(
      plan, [&](const OperandAt& operand, std::int64_t rows, std::int64_t columns, bool writes) {
        for_each_block_use(operand, rows, columns, writes, use);
      });
  use_bias(plan, use);
}
std::size_t count_memory_uses(const CompositePlan& plan);

// The number of tiles along each dimension.
GemmSize tile_counts(const GemmSize& size, const GemmSize& tile);

// The number of commands in the composite: two loads and a product per step, and per tile of the
// result a store, a load of the bias (if there is one) and an epilogue (if there is one).
std::int64_t part_count(const CompositePlan& plan);

// Bytes of scratch: two tiles of each operand and two of the result in f32, so that one is loaded,
// or stored, while the other is worked on; a single tile where the matrix has only one.
Bytes working_set(const CompositePlan& plan);

// Bytes of each operand that are loaded, and of what always comes from HBM.
struct LoadedBytes {
  Wide a = 0;
  Wide b = 0;
  Wide rest = 0;
};
LoadedBytes count_loaded(const CompositePlan& plan);

// The number of transfers that load tiles of a and b.
Wide count_loads(const CompositePlan& plan);

// Bytes that the composite moves into and out of TCM: with e bytes per element,
// (m k ceil(n / tile.n) + k n ceil(m / tile.m)) e + m n e_c, and the bias ceil(m / tile.m) times.
Bytes loaded_bytes(const CompositePlan& plan);
Bytes unshared_bytes(const CompositePlan& plan);  // those that are loaded from HBM by this PE alone
Bytes stored_bytes(const CompositePlan& plan);

}  // namespace kernbench::sim
