// All-reduce among SIPs, on the grid that joins them: reduce-scatter along x, then along y, and
// all-gather back along y, then x.  A dimension that wraps around is a ring, used in both
// directions at once; one that does not is a line.
//
// Steps (a x b SIPs):    2 (a - 1) + 2 (b - 1)
// Bytes over a link:     ring (P - 1)/P n each way; a x b torus, the busiest link: (a - 1)/a n each
// way;
//                        line 2 (P - 1)/P n
// Best for:              any size; every link of the dimension at hand carries the same load
// Source:                Patarasuk and Yuan, JPDC 69 (2009) for rings; per dimension, e.g. Jain and
//                        Sabharwal, ICS 2010; TIMING.md 3.2 for the closed forms
//
// Each chunk is summed up on one SIP, in one order, and then copied: all SIPs end with the same
// bits.

#pragma once

#include <span>

#include "ccl/algorithm.h"
#include "ccl/algorithms/chunks.h"

namespace kernbench::ccl {

// How many chunks a value must be cut in: one for each column of SIPs and each direction of travel.
int sip_exchange_chunk_count(const sim::Grid& sips);

// `chunks` (as many as that) hold this SIP's summands and end with the sums.
void sip_exchange(tl::Context& tl, const KernelArgs& args, std::span<Chunk> chunks);

}  // namespace kernbench::ccl
