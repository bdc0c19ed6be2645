// Chooses the tiles of a composite product by an estimate of its time.

#pragma once

#include <optional>

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/tile_pipeline.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// Chooses the tile sizes that `wanted` leaves open (0): of those that fit `scratch`, the one with
// the shortest time by estimate_time().  Among sizes within 1/256 of that, it takes the one that
// moves the fewest bytes, since that traffic delays other PEs.  Candidates are multiples of the
// array's sides and sizes that cut a dimension evenly without a further fold; along k the longest
// that fits, and the even cuts into as many parts, twice as many, and so on.  nullopt if none fits.
std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const WaysOfTiles& ways, Bytes scratch);

}  // namespace kernbench::sim
