// What no algorithm can beat (TIMING.md 3.1): one bound for each collective, whoever shows it
// (ADR-0123).

#pragma once

#include <span>

#include "runtime/distributed/collective.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// All-reduce of `bytes` per SIP over the links between SIPs, without reduction in the network.
// Links are busy for as long as the largest of these takes: every byte needs 2 (P - 1) link
// transfers, spread over all D directed links; the SIP with the fewest links must send all it has;
// the narrowest cut between two halves of the grid must let every byte through each way.  What a
// link lets through last arrives one latency later; and news must travel the diameter.  0 for one
// SIP, or for no bytes.
Time all_reduce_lower_bound(const Topology& topology, Bytes bytes);

// The same for `world_size` PEs that are ranks, of `bytes` each: all that a PE sends and receives
// goes through its one port, so 2 (P - 1)/P n at the port's rate, and the last of it must reach
// another PE.
// 0 for one PE, or for no bytes.
Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes);

// Any collective of members on these SIPs; of a message from the first to the last as an all_to_all
// in which only they have a block.  The largest of: what a member must send or receive goes through
// all links of its SIP at once, and what it receives travels at least as far as from its nearest
// peer; and news travels from every member to every other one that depends on it.  A member sends
//
//   all_reduce      n, its summands or the results    and receives  n
//   broadcast       n, the root                                     n, the others
//   reduce          n, the others                                   n, the root
//   all_gather      its block                                       the others' blocks
//   reduce_scatter  the others' blocks                              its block, once
//   all_to_all, gather, scatter: what it gives to others            what it takes from others
//
// The links of all SIPs count, also of those that are no members: so it holds for any group.  0 for
// one member, or for no bytes.  An all_reduce of all SIPs has all_reduce_lower_bound(), which is
// larger: the traffic of the whole network is known.
Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            distributed::CollectiveKind kind,
                            std::span<const distributed::CollectiveRequest> requests);

// The same of all SIPs, each of which gives blocks of `block` bytes.
// REQUIRES: a collective without a root
Time collective_lower_bound(const Topology& topology, distributed::CollectiveKind kind,
                            Bytes block);

// Directed links between SIPs.  Two neighbours have one each way, also where a dimension of size 2
// wraps around.
int directed_link_count(const Topology& topology);

}  // namespace kernbench::ccl
