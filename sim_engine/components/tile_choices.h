// The tile sizes that have been chosen for matrix products, which ranks, layers and steps repeat.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/fabric.h"
#include "sim_engine/components/operation.h"
#include "sim_engine/components/tile_estimate.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The ways of a PE's operands from a slice of HBM: it has equal shares of the slice and of its
// cube's SRAM beside the other PEs of its launch, whose first ones begin before the last ones.
// Tiles of other cubes come from the one opposite.
WaysOfTiles find_ways_of_tiles(const Topology& topology, Fabric& fabric, const PeLocation& home,
                               const PeLocation& pe, const Sharers& sharers);

class TileChoices {
 public:
  // Returns what choose_tile() returns, which the first call of these arguments computes.
  // REQUIRES: pe is the same in all calls
  const std::optional<GemmSize>& choose(const CompositePlan& plan, const GemmSize& wanted,
                                        const Topology::Pe& pe, const WaysOfTiles& ways,
                                        Bytes scratch);

 private:
  // The key has all that choose_tile() depends on except what is the same for all calls: `pe`, and
  // the capacity of SRAM.
  using Arguments = std::array<std::int64_t, 32>;

  std::map<Arguments, std::optional<GemmSize>> chosen_;
};

}  // namespace kernbench::sim
