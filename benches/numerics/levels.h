// The price of sums over ranks that have the same bits more often: the levels of Reproducible.

#pragma once

#include <vector>

#include "benches/bench/bench.h"
#include "benches/numerics/simulated_sums.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::numerics {

// Simulates the call at each of these levels, by the algorithm that its default is.  The bits of an
// element must not depend on others in front of it where the level says so.  `pairs` is left out
// unless ranks are a power of two.
std::vector<Row> run_levels(PointContext& point, const Topology& topology, SumCall call,
                            const std::vector<Reproducible>& levels);

void print_levels(Bench& bench, const std::vector<Row>& rows);

}  // namespace kernbench::benches::numerics
