// What no algorithm can beat (TIMING.md 3.1).

#pragma once

#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// All-reduce of `bytes` per SIP over the links between SIPs, without reduction in the network.  The
// largest of: every byte needs 2 (P - 1) link transfers, spread over all D directed links; the SIP
// with the fewest links must send all it has; the narrowest cut between two halves of the grid must
// let every byte through each way; and news must travel the diameter.  0 for one SIP, or for no
// bytes.
Time all_reduce_lower_bound(const Topology& topology, Bytes bytes);

// The same for `world_size` PEs that are ranks, of `bytes` each: all that a PE sends and receives
// goes through its one port, so 2 (P - 1)/P n at the port's rate, and news must reach another PE.
// 0 for one PE, or for no bytes.
Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes);

// Directed links between SIPs.  Two neighbours have one each way, also where a dimension of size 2
// wraps around.
int directed_link_count(const Topology& topology);

}  // namespace kernbench::ccl
