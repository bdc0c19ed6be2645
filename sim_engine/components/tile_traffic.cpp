#include "sim_engine/components/tile_traffic.h"

#include <algorithm>

#include "sim_engine/base/ceil_divide.h"

namespace kernbench::sim {

namespace {

// PEs in other cubes that read the same tiles are as many in each.
std::int64_t count_cubes(const OperandAt& operand) {
  return operand.readers.in_launch / operand.readers.in_cube;
}

// The number of tiles of an operand that the PEs of a cube read at a time.
std::int64_t count_different(const OperandAt& operand, const WaysOfTiles& ways) {
  return std::max(ways.pes_in_cube / operand.readers.in_cube, 1);
}

}  // namespace

// A tile of a is needed again when the cube's PEs have gone on by one tile along n, and one of b
// when they have gone through all of n.  SRAM keeps it if what is loaded meanwhile fits.  Cubes
// take a tile from each other only as long as it stays where it lies: there must be room for two
// steps of this cube's PEs, and for as much that others ask for.
TileTraffic::TileTraffic(const CompositePlan& plan, const WaysOfTiles& ways)
    : plan_(plan), ways_(ways) {
  const auto& [m, n, k] = plan.tile;
  const auto in_sram = [&](const OperandAt& operand, std::int64_t side, std::int64_t depth) {
    const Bytes bytes = side * depth * size_of(operand.buffer.dtype);
    return operand.is_shared() ? bytes * ways.pes_in_cube / operand.readers.in_cube : 0;
  };
  const Bytes of_a = in_sram(plan.a, m, plan.size.k);
  keeps_a_ = of_a + in_sram(plan.b, n, plan.size.k) <= ways.sram_capacity;
  keeps_b_ = of_a + in_sram(plan.b, plan.size.n, plan.size.k) <= ways.sram_capacity;
  cubes_share_ = 4 * (in_sram(plan.a, m, k) + in_sram(plan.b, n, k)) <= ways.sram_capacity;
}

Service TileTraffic::own_transfer(Bytes bytes) const {
  const Wide together = to_picoseconds(bytes, ways_.hbm.share);
  return {to_picoseconds(bytes, ways_.hbm.alone.bandwidth), together, together};
}

Service TileTraffic::on_sram(Wide read, Wide passed) const {
  const Wide together = to_picoseconds(passed, ways_.sram.share);
  return {to_picoseconds(read, ways_.sram.alone.bandwidth), together, together};
}

// Each slice of HBM gives a part of a tile by itself; rows of two tiles may lie in one slice.
std::int64_t TileTraffic::count_transfers(const OperandAt& operand) const {
  const GemmSize counts = tile_counts(plan_.size, plan_.tile);
  const std::int64_t of_side = &operand == &plan_.a ? counts.m : counts.n;
  const std::int64_t tiles = has_rows_along_k(operand) ? counts.k : of_side;
  return ceil_divide(tiles + operand.further_transfers(), tiles);
}

// PEs with different tiles have rows of their own if an operand's rows do not lie along k.
TileTraffic::Spread TileTraffic::spread_of(const OperandAt& operand, std::int64_t side,
                                           std::int64_t depth) const {
  const bool along_k = has_rows_along_k(operand);
  const std::int64_t of_side = &operand == &plan_.a ? plan_.size.m : plan_.size.n;
  const std::int64_t slices = 1 + operand.further_transfers();
  const std::int64_t rows_of_slice = ceil_divide(along_k ? plan_.size.k : of_side, slices);
  const auto slices_of = [&](std::int64_t rows) {
    return std::min(slices, ceil_divide(rows, rows_of_slice));
  };
  const std::int64_t rows = along_k ? depth : side;
  Spread spread{.rows = rows, .rows_in_slice = std::min(rows, rows_of_slice)};
  if (along_k) {
    spread.of_step = slices_of(rows);
    spread.of_two_steps = slices_of(2 * rows);
  } else {
    spread.of_step = std::min(count_different(operand, ways_) * slices_of(rows),
                              ways_.slices_in_cube * count_cubes(operand));
    spread.of_two_steps = spread.of_step;
  }
  return spread;
}

TileLoad TileTraffic::cost_of(const OperandAt& operand, std::int64_t side,
                              std::int64_t depth) const {
  TileLoad cost;
  if (side == 0 || depth == 0) return cost;
  const Bytes bytes = side * depth * size_of(operand.buffer.dtype);
  cost.transfers = count_transfers(operand);
  cost.hbm = own_transfer(bytes);
  if (!operand.is_shared()) return cost;
  const Spread spread = spread_of(operand, side, depth);
  const std::int64_t cubes = count_cubes(operand);
  cost.crosses = cubes_share_ && cubes > 1;
  const Wide part = Wide{bytes} * spread.rows_in_slice / spread.rows;
  const Wide different = Wide{bytes} * count_different(operand, ways_);
  const auto on_way = [&](Bandwidth alone, Bandwidth all, std::int64_t count) -> Service {
    return {to_picoseconds(part, alone), to_picoseconds(different * count / spread.of_step, all),
            to_picoseconds(different * count / spread.of_two_steps, all)};
  };
  const Bandwidth hbm = ways_.hbm.alone.bandwidth;
  cost.hbm = on_way(hbm, hbm, cost.crosses ? 1 : cubes);
  if (cost.crosses) cost.cubes = on_way(ways_.cubes.bandwidth, ways_.to_all_cubes, cubes - 1);
  const Wide written = bytes / operand.readers.in_cube;
  const Wide sent = cost.crosses ? Wide{bytes} * (cubes - 1) / operand.readers.in_launch : 0;
  cost.sram_new = on_sram(bytes, bytes + written + sent);
  cost.sram_kept = on_sram(bytes, bytes);
  return cost;
}

}  // namespace kernbench::sim
