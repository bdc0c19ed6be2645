// The rate that MFUs are shares of.

#pragma once

#include <cstdint>
#include <optional>

#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

// Returns the FLOP/s of the arrays of `pes` PEs, for elements of 16 bits or more: 2 for each cell
// and cycle.  nullopt: they take no time.
std::optional<double> peak_flops(const Topology& topology, std::int64_t pes);

}  // namespace kernbench::benches
