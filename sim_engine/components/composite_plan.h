// The plan of a composite command: it computes a matrix product that is larger than scratch, tile
// by tile.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
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

  // Calls use(matrix, elements) for what each block has of `rows` x `columns` elements of the
  // operand at (row, column), in the order of rows in memory.
  template <class Use>
  void for_each_part(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns,
                     const Use& use) const {
    if (is_transposed) {
      std::swap(row, column);
      std::swap(rows, columns);
    }
    auto next = std::ranges::upper_bound(further, row, {}, &Block::row);
    for (std::int64_t at = row; at < row + rows;) {
      const bool is_first = next == further.begin();
      const MatrixAt& home = is_first ? *this : std::prev(next)->at;
      const std::int64_t first = is_first ? 0 : std::prev(next)->row;
      const std::int64_t end = next == further.end() ? row + rows : std::min(row + rows, next->row);
      use(home, home.block(at - first, column, end - at, columns));
      at = end;
      if (next != further.end()) ++next;
    }
  }
};

// Elements of a block.
struct PartOfBlock {
  const MatrixAt* block;
  ElementRange elements;
};

// Calls use(parts) for each transfer of `rows` x `columns` elements of the operand at (row,
// column), in the order of rows in memory.
template <class Use>
void for_each_transfer(const OperandAt& operand, std::int64_t row, std::int64_t column,
                       std::int64_t rows, std::int64_t columns, const Use& use) {
  std::vector<PartOfBlock> parts;
  operand.for_each_part(row, column, rows, columns,
                        [&](const MatrixAt& block, const ElementRange& elements) {
                          if (!parts.empty() && !block.joins_previous) {
                            use(std::span<const PartOfBlock>(parts));
                            parts.clear();
                          }
                          parts.push_back({&block, elements});
                        });
  if (!parts.empty()) use(std::span<const PartOfBlock>(parts));
}

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
std::vector<MemoryUse> list_memory_uses(const CompositePlan& plan);

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
