// Chooses the tiles of a composite product by an estimate of its time.

#pragma once

#include <optional>

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The ways on which tiles reach a PE's TCM.  Each has the PE's share of the bandwidth, of HBM or,
// for shared tiles, of SRAM; the latencies include what the PE spends on a load.
struct WaysOfTiles {
  LinkSpec hbm;
  LinkSpec sram = {};
  Bytes sram_capacity = 0;
  int pes_in_cube = 1;  // of the launch
};

// Chooses the tile sizes that `wanted` leaves open (0).  Among the sizes that fit `scratch`, it
// estimates the time of the composite as the longest of these:
//   - the first load, all steps, and the last store, where a step takes the longer of its product
//     and the loads of the next step, and a product the longer of its cycles and of what crosses
//     either port of pe.tcm.compute_bandwidth; the first row of tiles, for which HBM gives all of
//     b, takes no less than HBM;
//   - the time of all bytes on their ways, or of the DMA's descriptors, and the last product;
//   - half the sum of the products' time, that of all loads, and a load's latency for each product:
//     two products' operands are under way or in use at a time.
// HBM serves a shared operand once, or each time that SRAM could not keep it, and each reader
// counts an equal part of that; of an operand whose rows lie along k, only the slices of HBM with
// the rows of two steps serve it at a time, since all PEs go through k in step.  The port of SRAM
// has what PEs read from it, what is written as tiles come, and what goes to other cubes.  Among
// the sizes within 1/64 of the shortest time, it takes the one that moves the fewest bytes, since
// that traffic delays other PEs.  Candidates are sizes that cut a dimension evenly, and multiples
// of the array's sides.  nullopt if none fits.
std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const WaysOfTiles& ways, Bytes scratch);

}  // namespace kernbench::sim
