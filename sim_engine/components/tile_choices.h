// The tile sizes that have been chosen for matrix products, which ranks, layers and steps repeat.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::sim {

// The way of a PE's operands, of whose slice of HBM it has an equal share beside the other PEs of
// its launch; its latency includes what the PE spends on a load.
LinkSpec find_way_of_tiles(const Topology& topology, const Path& path, int slice_sharers);

class TileChoices {
 public:
  // Returns what choose_tile() returns, which the first call of these arguments computes.
  // REQUIRES: pe is the same in all calls
  const std::optional<GemmSize>& choose(const CompositePlan& plan, const GemmSize& wanted,
                                        const Topology::Pe& pe, const LinkSpec& way, Bytes scratch);

 private:
  // The key has all arguments that choose_tile() depends on except `pe`, which is the same for all.
  using Arguments = std::array<std::int64_t, 13>;

  std::map<Arguments, std::optional<GemmSize>> chosen_;
};

}  // namespace kernbench::sim
