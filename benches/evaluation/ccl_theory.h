// The time of the evaluated all_reduce on links alone, to set beside what is measured (ADR-0193).

#pragma once

#include "ccl/core/plan.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::evaluation {

// The time that intercube_allreduce of `bytes` per cube takes where only links cost time: the tree
// over cubes to its root, the exchange over the SIPs' grid, both dimensions at once, and the tree
// back (TIMING.md 3.2, "hierarchical, root form").  A cube's PEs share each link: their messages
// follow each other.  Chunks may have any size, and no sender waits for a free slot.
Time intercube_on_links(const Topology& topology, ccl::Root root, Bytes bytes);

}  // namespace kernbench::benches::evaluation
