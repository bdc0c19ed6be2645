// What the tiles of a composite product take of the ways to a PE's TCM.
//
// Models:      a new tile of a shared operand passes HBM, the way to other cubes if PEs there read
//              it too, and SRAM, one after the other; a tile that SRAM has kept passes SRAM alone.
//              HBM gives a tile once, or once for each cube if SRAM has no room for those that
//              other cubes take.  SRAM has one port: what PEs read, what comes, and what goes to
//              other cubes pass it. Of an operand whose rows in memory lie along k, only the slices
//              of HBM with the rows of a step give tiles at a time, since all PEs go through k in
//              step.
// Not modeled: links between cubes that carry several homes' tiles, ways out of and into corners.

#pragma once

#include <cstdint>

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

// A way of tiles: what a transfer alone on it has, and this PE's equal share of what the PEs of the
// launch have together; unlimited: the PE has the way alone.
struct WayOfTiles {
  LinkSpec alone;
  Bandwidth share = {};
};

struct WaysOfTiles {
  WayOfTiles hbm;               // from a slice of HBM to the PE
  WayOfTiles sram = {};         // from the cube's SRAM to the PE
  LinkSpec cubes = {};          // from the SRAM of a cube to that of another one
  Bandwidth to_all_cubes = {};  // from the SRAM of a cube to those of all others, all copies
  Time hbm_to_sram{0};          // latency
  Bytes sram_capacity = 0;
  Time launch_spread{0};  // from the start of a cube's first PE to that of its last one
  int pes_in_cube = 1;    // of the launch
  int slices_in_cube = 1;
};

template <class Unit>
Wide to_picoseconds(Wide count, Rate<Unit> rate) {
  return rate.is_unlimited() ? Wide{0} : count * kPicosecondsPerSecond / rate.per_second;
}

// The time that the PEs' transfers of a step take of a way, in picoseconds.
struct Service {
  Wide alone = 0;     // a PE's transfer by itself
  Wide at_once = 0;   // those of all PEs, if they are asked for at once
  Wide together = 0;  // those of all PEs in the long run, where the next step's go beside them
};

// The services that a tile of an operand takes.
struct TileLoad {
  std::int64_t transfers = 1;
  bool crosses = false;  // to other cubes
  Service hbm;
  Service cubes;
  Service sram_new;   // when it comes: written, sent to other cubes, and read
  Service sram_kept;  // read
};

class TileTraffic {
 public:
  // REQUIRES: both outlive this
  TileTraffic(const CompositePlan& plan, const WaysOfTiles& ways);

  // Tiles of the result go row by row.
  bool keeps_a() const { return keeps_a_; }  // until the next tile along n
  bool keeps_b() const { return keeps_b_; }  // until the next row of tiles

  // A tile of `side` x `depth` elements, along m or n and along k; nothing if it is empty.
  // REQUIRES: the operand is the plan's a or b
  TileLoad cost_of(const OperandAt& operand, std::int64_t side, std::int64_t depth) const;

  // Bytes that this PE alone moves from or to its slice of HBM.
  Service own_transfer(Bytes bytes) const;

 private:
  // How a tile lies over slices of HBM.
  struct Spread {
    std::int64_t rows = 1;           // of the tile, in memory
    std::int64_t rows_in_slice = 1;  // at most
    std::int64_t of_step = 1;        // slices that give tiles of a step to all PEs
    std::int64_t of_two_steps = 1;
  };
  Spread spread_of(const OperandAt& operand, std::int64_t side, std::int64_t depth) const;
  std::int64_t count_transfers(const OperandAt& operand) const;
  bool has_rows_along_k(const OperandAt& operand) const {
    return operand.is_transposed == (&operand == &plan_.a);
  }
  Service on_sram(Wide read, Wide passed) const;

  const CompositePlan& plan_;
  const WaysOfTiles& ways_;
  bool keeps_a_;
  bool keeps_b_;
  bool cubes_share_;
};

}  // namespace kernbench::sim
