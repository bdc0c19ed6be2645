// The tiles by which the members of a team of attention's backward pass go through a sequence.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/functional/packed_attention.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/components/machine.h"
#include "sim_engine/topology/location.h"

namespace kernbench::ops {

// How the members go through a sequence.
struct TeamTiles {
  std::int64_t rows = 1;    // of a block of the query
  std::int64_t stripe = 1;  // consecutive keys of a member
  std::int64_t chunk = 1;   // stripes of a tile of scores
  std::int64_t pass = 1;    // stripes whose gradients are in scratch at a time
};

// Returns tiles as large as the smallest scratch of a member allows, with as many keys at a time.
TeamTiles choose_team_tiles(sim::Machine& machine, const std::vector<sim::PeLocation>& members,
                            const PackedAttention& attention, DType dtype);

}  // namespace kernbench::ops
