// The time of a plan by a model of latencies and bandwidths.  A plan is walked once, and its time
// for any number of bytes is a formula of what the walk found, so that `auto` can compare all
// algorithms before each collective.  The same model is the tables' column "model".
//
//     time = max(S (a + c) + F + L,  (1 + (S - 1) i) (a + c) + B + W,  M,  D)
//
//     S   messages of the longest chain, each of which waits for the one before
//     a   the latency between neighbours; c: the commands of a message
//     F   what the first slice of a lane takes on links, time by time of the plan
//     L   what the other slices take after it in the last time
//     B   what all slices take on the busiest link
//     W   what that link waits for while the first slices of all lanes are under way
//     i   the share of the plan's times in which that link stands idle
//     M   what the busiest member loads from HBM and stores there
//     D   what its PEs add
//
// Where all messages have one size and no two wait for each other, that is the closed form of
// TIMING.md 3.2.  Not modelled: senders that wait for credits, members that begin at different
// times, other collectives on the same links.

#pragma once

#include <vector>

#include "ccl/core/config.h"
#include "ccl/steps/plan_walk.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

struct Protocol;

// Moved is the data of a collective: the bytes of a block and where each member has them.
struct Moved {
  Bytes bytes = 0;        // of a block, which is what one member gives to another
  int lanes = 1;          // PEs of each member that have it
  int cubes = 1;          // of each member that share a tree
  bool has_sums = false;  // each of these cubes has a summand; else all have copies
  int root = 0;           // the member of a broadcast, reduce, gather or scatter; else 0

  friend auto operator<=>(const Moved&, const Moved&) = default;
};

// A message between members of a group, a load from HBM and a message inside a SIP cost this.
struct NetworkCosts {
  // Between neighbours, from TCM to TCM, the longest of the first cube, of the first two, ...:
  // cubes far from the IO chiplet have a longer way.
  std::vector<Time> latency;
  Time root_latency{0};  // between the roots of the trees over cubes
  // A launch on PEs of the first cube, of the first two, ..., with the news of its end.
  std::vector<Time> launch;
  Time commands{0};   // of PEs: to send a message, to take it out of the queue and to add it
  Bandwidth slowest;  // of the links between neighbours
  Time memory{0};     // from HBM to a TCM, with the commands of a load
  Bandwidth memory_port;
  Time cube{0};              // between neighbouring cubes, from TCM to TCM
  Bandwidth slowest_inside;  // of the links between those
};

// The machine as the members of a group see it.
struct GroupNetwork {
  Topology topology;
  sim::IpcqParams ipcq;
  Bytes eager_bytes = 0;     // of messages that need no posted receive
  Root root = Root::center;  // of the trees over cubes
  NetworkCosts costs;
};

// Returns what a group sees whose members are the PEs of one SIP, or SIPs.
GroupNetwork make_group_network(const Topology& topology, const Config& config, bool are_pes);

// The times of two plans that HBM bounds are often equal, and the one whose messages take less is
// then the better one.
struct PlanTime {
  Time time{0};
  Time of_messages{0};  // without what the rates of HBM and of sums bound

  friend auto operator<=>(const PlanTime&, const PlanTime&) = default;
};

// Returns the time of the kernels, without their launch.  `protocol` is that of the messages; null
// if there is none.
PlanTime plan_time(const PlanWalk& walk, const GroupNetwork& network, const Protocol* protocol,
                   const Moved& moved);

// Returns what a launch on so many PEs of each SIP takes besides its kernels.
Time launch_time(const GroupNetwork& network, int pes);

}  // namespace kernbench::ccl
