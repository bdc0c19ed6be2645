// The tiles by which a member of a team of attention's backward pass goes through a sequence.

#pragma once

#include <cstdint>

#include "runtime/functional/packed_attention.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ops {

// How a member goes through a sequence.
struct TeamTiles {
  std::int64_t rows = 1;    // of a block of the query
  std::int64_t stripe = 1;  // consecutive keys of a member
  std::int64_t chunk = 1;   // stripes of a tile of scores
  std::int64_t pass = 1;    // stripes whose gradients are in scratch at a time
};

// Returns tiles as large as scratch allows, with as many keys at a time.
TeamTiles choose_team_tiles(Bytes scratch, const GemmSpec& array, const PackedAttention& attention,
                            DType dtype, std::int64_t members);

}  // namespace kernbench::ops
