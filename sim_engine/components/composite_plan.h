// What a composite command does: a matrix product that is larger than scratch, in tiles.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim_engine/base/gemm_size.h"
#include "sim_engine/components/activation.h"
#include "sim_engine/components/device_buffer.h"
#include "sim_engine/data/element_range.h"
#include "sim_engine/topology/topology.h"

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

// What it accesses.
struct MatrixUse {
  RegionId region;
  ElementRange elements;
  bool writes;
};
std::vector<MatrixUse> uses_of(const CompositePlan& plan);

// How many tiles the sizes are cut in.
GemmSize tile_counts(const GemmSize& size, const GemmSize& tile);

// How many commands it is made of: two loads and a product of tiles for each step, and for each
// result a store, a load of the bias and an epilogue, if there is one.
std::int64_t part_count(const CompositePlan& plan);

// Bytes of scratch: two tiles of each operand and two of the result in f32, so that one is loaded,
// or stored, while the other is worked on; one where there is only one in all.
Bytes working_set(const CompositePlan& plan);

// Bytes that the composite moves from and to HBM: with e bytes per element,
// (m k ceil(n / tile.n) + k n ceil(m / tile.m)) e + m n e_c, and the bias ceil(m / tile.m) times.
Bytes loaded_bytes(const CompositePlan& plan);
Bytes stored_bytes(const CompositePlan& plan);

// Sizes of tiles where `wanted` has none (0).  Of those that fit `scratch`, those promise to be
// done first for which the longest of these is least:
//   - the first load, all steps, of which each takes as long as its product or as the loads of the
//     next step, and the last store;
//   - the time of all bytes on `way` and the last product;
//   - half the sum of the array's time, that of all loads, and way.latency for each product: two
//     products' operands are under way or in use at a time.
// Of those within a 64th of the least, it is the one that moves the fewest bytes: they are other
// PEs' time.  Candidates are sizes that cut a dimension evenly, and multiples of the array's sides.
// nullopt if none fits.
std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const GemmSpec& array, const LinkSpec& way, Bytes scratch);

}  // namespace kernbench::sim
