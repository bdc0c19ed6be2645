// Spreads what a collective moves over the links of a group.

#pragma once

#include "ccl/core/ways.h"

namespace kernbench::ccl {

// Routes that take turns at choosing the least loaded links.
Packing pack(const Ways& ways, distributed::CollectiveKind kind, int root);

// The blocks that the busiest link carries at least, whatever the algorithm, if all blocks have one
// size: for any prices of links, what the cheapest routes cost over what all links cost.  Prices
// rise with the loads of a packing, which makes it hard to beat (ADR-0267).
double find_least_load(const Ways& ways, distributed::CollectiveKind kind, int root,
                       const Packing& packing);

}  // namespace kernbench::ccl
