// Times that no algorithm can beat (TIMING.md 3.1).  Each collective has one bound, whichever
// report shows it (ADR-0123).

#pragma once

#include <span>

#include "runtime/distributed/collective.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

class Ways;

// The bound of an all-reduce of `bytes` per SIP over the links between SIPs.  Links are busy for at
// least the largest of these: every byte needs 2 (P - 1) link transfers, spread over all D directed
// links, and of a switch through its core, unless it adds up itself; the SIP with the fewest links
// must send all its bytes; the narrowest cut must let every byte through each way.
// The last byte arrives one latency later, and information must travel the diameter.  0 for one
// SIP, or for no bytes.
Time all_reduce_lower_bound(const Topology& topology, Bytes bytes);

// The bound for `world_size` PEs that are ranks, of `bytes` each.  A PE sends and receives
// everything through its one port, so it takes 2 (P - 1)/P n at the port's rate, and the last byte
// must reach another PE.
// 0 for one PE, or for no bytes.
Time pe_all_reduce_lower_bound(const Topology& topology, int world_size, Bytes bytes);

// The bound of any collective of members on these SIPs; a message from the first to the last
// counts as an all_to_all in which only they have a block.  It is the largest of: the time of a
// member's bytes, sent or received, over all links of its SIP at once, plus the distance from its
// nearest peer; and the distance from every member to every other one that depends on it.  A
// member sends
//
//   all_reduce      n, its summands or the results    and receives  n
//   broadcast       n, the root                                     n, the others
//   reduce          n, the others                                   n, the root
//   all_gather      its block                                       the others' blocks
//   reduce_scatter  the others' blocks                              its block, once
//   all_to_all, gather, scatter: what it gives to others            what it takes from others
//
// The blocks of an all_to_all of up to 64 members also cross so many links altogether, and go over
// every straight cut of the grid.  An all_reduce of all SIPs has all_reduce_lower_bound() instead.
//
// The busiest of the links that messages between up to 8 members of a grid can pass takes at least
// Ways::least_load() blocks (ADR-0267); the bound is the longer of the two.
//
// 0 for one member, or for no bytes.
Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            distributed::CollectiveKind kind,
                            std::span<const distributed::CollectiveCall> requests);

// The same with ways that are known: null if a group has none.
Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            distributed::CollectiveKind kind,
                            std::span<const distributed::CollectiveCall> requests,
                            const Ways* ways);

// The same bound if each member gives blocks of `block` bytes.  `root` is a member's number.
Time collective_lower_bound(const Topology& topology, std::span<const int> sips,
                            distributed::CollectiveKind kind, Bytes block, int root);

// The same for all SIPs.
// REQUIRES: a collective without a root
Time collective_lower_bound(const Topology& topology, distributed::CollectiveKind kind,
                            Bytes block);

// The time that the HBM slice with the most to read and write takes for it: the shards of outputs,
// copies too, and of inputs that lie in one place.  0 where only a part of a tensor is written.
Time memory_lower_bound(const Topology& topology,
                        std::span<const distributed::CollectiveCall> requests);

// Counts the directed links between SIPs.  Two neighbours have one each way, also where a
// dimension of size 2 wraps around.
int directed_link_count(const Topology& topology);

}  // namespace kernbench::ccl
