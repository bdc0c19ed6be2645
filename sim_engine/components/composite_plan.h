// The plan of a composite command: it computes a matrix product that is larger than scratch, tile
// by tile.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

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

// A matrix of the product, whose rows may lie in several blocks, on different PEs.  A transposed
// one has the operand's columns as rows in memory, and what is said of rows holds for those.
struct OperandAt : MatrixAt {
  struct Block {
    std::int64_t row;  // the first of its rows in the memory of the whole
    MatrixAt at;
  };
  // The PEs that compute with the same tiles: those of this PE's cube, and those of the launch.
  struct Readers {
    int in_cube = 0;  // 0: the PE takes its tiles from HBM, not by way of SharedTiles
    int in_launch = 0;
  };

  std::vector<Block> further = {};  // blocks behind the first, ascending
  Readers readers = {};
  bool is_transposed = false;

  bool is_shared() const { return readers.in_cube > 0; }
  // The transfers that all rows take beyond the first one.
  std::int64_t further_transfers() const {
    return std::ranges::count_if(further,
                                 [](const Block& block) { return !block.at.joins_previous; });
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
    const auto behind = std::ranges::upper_bound(further, row, {}, &Block::row);
    return {static_cast<std::size_t>(behind - further.begin()), row, column, rows, columns};
  }

  const MatrixAt& matrix_of(std::size_t block) const {
    return block == 0 ? *this : further[block - 1].at;
  }
  ElementRange in_first_block(const Rows& rows) const {
    const std::int64_t first = rows.block == 0 ? 0 : further[rows.block - 1].row;
    const std::int64_t stop = end_of(rows.block, rows.row + rows.rows);
    return matrix_of(rows.block)
        .block(rows.row - first, rows.column, stop - rows.row, rows.columns);
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
      while (end_of(last, end) < end && further[last].at.joins_previous) ++last;
      const std::int64_t stop = end_of(last, end);
      use(Rows{left.block, left.row, left.column, stop - left.row, left.columns});
      left.row = stop;
      left.block = last + 1;
    }
  }

 private:
  std::int64_t end_of(std::size_t block, std::int64_t most) const {
    return block < further.size() ? std::min(most, further[block].row) : most;
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
// Calls use(MemoryUse) for each block that a matrix lies in, as often as count_memory_uses() says.
template <class Use>
void for_each_memory_use(const CompositePlan& plan, const Use& use) {
  const auto& [m, n, k] = plan.size;
  const auto for_each_of = [&](const OperandAt& operand, std::int64_t rows, std::int64_t columns,
                               bool writes) {
    operand.for_each_part(operand.rows_at(0, 0, rows, columns),
                          [&](const MatrixAt& matrix, const ElementRange& elements) {
                            use(MemoryUse{matrix.buffer.region, elements.simplified(), writes});
                          });
  };
  for_each_of(plan.a, m, k, false);
  for_each_of(plan.b, k, n, false);
  for_each_of(plan.c, m, n, true);
  if (!plan.bias) return;
  use(MemoryUse{plan.bias->buffer.region, plan.bias->block(0, 0, 1, n).simplified(), false});
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
