// The plan of a composite command: it computes a matrix product that is larger than scratch, tile
// by tile.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"
#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::sim {

// A matrix in HBM, row by row; rows may be parts of longer ones.
struct MatrixAt {
  DeviceBuffer buffer;
  std::int64_t begin = 0;  // its first element
  std::int64_t pitch = 0;  // from one row's first element to the next's

  // `rows` x `columns` elements at (row, column).
  ElementRange block(std::int64_t row, std::int64_t column, std::int64_t rows,
                     std::int64_t columns) const {
    return {begin + row * pitch + column, columns, rows, pitch};
  }
};

// c = activation(scale (a b) + bias), with the products summed and the rest computed in f32, and
// one rounding to c's type.
struct CompositePlan {
  GemmSize size;
  GemmSize tile;  // edges have smaller ones
  MatrixAt a;
  MatrixAt b;
  MatrixAt c;
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

// Bytes that the composite moves from and to HBM: with e bytes per element,
// (m k ceil(n / tile.n) + k n ceil(m / tile.m)) e + m n e_c, and the bias ceil(m / tile.m) times.
Bytes loaded_bytes(const CompositePlan& plan);
Bytes stored_bytes(const CompositePlan& plan);

// Chooses the tile sizes that `wanted` leaves open (0).  Among the sizes that fit `scratch`, it
// estimates the time of the composite as the longest of these:
//   - the first load, all steps, and the last store, where a step takes the longer of its product
//     and the loads of the next step, and a product the longer of its cycles and of what crosses
//     either port of pe.tcm.compute_bandwidth;
//   - the time of all bytes on `way` and the last product;
//   - half the sum of the products' time, that of all loads, and way.latency for each product: two
//     products' operands are under way or in use at a time.
// Among the sizes within 1/64 of the shortest time, it takes the one that moves the fewest bytes,
// since that traffic delays other PEs.  Candidates are sizes that cut a dimension evenly, and
// multiples of the array's sides.  nullopt if none fits.
std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const LinkSpec& way, Bytes scratch);

}  // namespace kernbench::sim
