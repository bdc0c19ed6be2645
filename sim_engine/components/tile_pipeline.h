// Estimates the time of a composite product by a recurrence over its steps.
//
// Models:      the first and the last of a cube's PEs, as Composite runs them.  A step's loads are
//              issued when the product two before has ended; products follow each other; a result
//              waits for the store of the result two before.  Ways serve PEs in the order in which
//              they ask, which those between the first and the last do at times between theirs.
//              After PEs have come at once, they stay apart, so that none waits for the others as
//              long as the way keeps up (tile_traffic.h says what a tile takes of it).
// Not modeled: cubes that are out of step, an epilogue, further stores of a result that lies in
//              several slices.

#pragma once

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/tile_traffic.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

inline constexpr Wide kNoLimit = Wide{1} << 126;

// The time from the composite's start on the first PE to its end on the last one, in picoseconds;
// or a time longer than `most` once it is known to be longer.
// REQUIRES: the tile's sizes are positive
Wide estimate_time(const CompositePlan& plan, const Topology::Pe& pe, const WaysOfTiles& ways,
                   Wide most = kNoLimit);

}  // namespace kernbench::sim
