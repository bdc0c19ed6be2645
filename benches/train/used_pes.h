// The PEs of a device that share a step's tokens, and the weights.

#pragma once

#include <cstdint>
#include <string>

#include "benches/bench/settings.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::train {

struct UsedPes {
  int cubes = 1;
  int pes = 1;  // of each cube

  int count() const { return cubes * pes; }
  DPPolicy weights() const { return DPPolicy::shared(cubes, pes); }
  DPPolicy tokens() const { return {Shard::row_wise, Shard::row_wise, cubes, pes}; }
};

// Reads the keys `cubes` and `pes`.  Where one is empty, as many are chosen as the tokens of a step
// fill: each PE has a row of tokens for each row of its array, since the array takes as long for
// fewer.  They are spread over as many cubes as possible.
UsedPes read_pes(const Settings& settings, const Topology& topology, std::int64_t tokens);

// "all 128 PEs of a SIP", or how many, and by what factor its links and HBM are too fast for them.
std::string describe(const UsedPes& used, const Topology& topology);

}  // namespace kernbench::benches::train
