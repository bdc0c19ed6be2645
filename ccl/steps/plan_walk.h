// A plan is walked once, for its longest chain of messages and for what the links of its group
// carry, time by time.  plan_time.h makes a time of that for any number of bytes.

#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "ccl/core/algorithm.h"
#include "ccl/core/plan.h"
#include "ccl/steps/link_shares.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// A chain of messages, each of which waits for the one before, or for the news of its receive.
struct Chain {
  int steps = 0;    // messages
  int news = 0;     // of receives, that a message of the chain waits for
  int further = 0;  // links that messages pass beyond one each
  Time extra{0};    // that links unlike system.sip_link add, as those between nodes
  Time latency{0};  // of all of them, where there are such links

  // A step takes longer than the news of a receive, and these longer than a further link.
  friend bool operator<(const Chain& a, const Chain& b) {
    return std::tuple(a.latency, a.steps + a.news, a.steps, a.further) <
           std::tuple(b.latency, b.steps + b.news, b.steps, b.further);
  }
};

// PlanWalk sums up the plans of all members.  Loads are in shares of a chunk, of which a block has
// plan.chunk_count: links between nodes take longer for a chunk than those within.
struct PlanWalk {
  static constexpr std::int64_t kChunk = LinkShares::kWhole;  // shares

  Plan plan{Plan::Kind::all_reduce, 0};  // the first member's
  bool are_pes = false;
  bool uses_slots = true;    // messages go through queues of ccl.yaml, as far as there are some
  bool passes_sums = false;  // a switch adds up its messages
  Chain eager;               // the longest, where slots wait for each message (EagerSlots)
  Chain posted;              // the longest, where messages wait for receives to be posted
  int most_of_pair = 0;      // the most messages of a slice from one member to another
  std::int64_t fill = 0;     // the most that a link carries in each time, summed up
  std::int64_t last = 0;     // the most that a link carries in the last of them
  std::int64_t load = 0;     // the most that a link carries in all times
  std::int64_t kept = 0;     // chunks of a slice that a member keeps in scratch; 0: not known
  std::int64_t memory = 0;   // the most that a member loads and stores
  std::int64_t added = 0;    // the most that a member adds to something
  int times = 0;             // in which messages are sent
  int idle_times = 0;        // of the busiest link

  double load_of_block() const { return static_cast<double>(load) / kChunk / plan.chunk_count; }
};

// Walks the plans of a group of these SIPs, or of PEs.  `root` is the member of a broadcast,
// reduce, gather or scatter.  REQUIRES: algorithm.plan != nullptr
PlanWalk walk_plan(const Algorithm& algorithm, Plan::Kind kind, const Topology& topology,
                   const GroupShape& shape, const std::vector<int>& sips, int root = 0);

// The root whose walk says as much: the first member where all of them stand alike, and where the
// plans of so many members are not all looked at.
int root_to_walk(const Topology& topology, const GroupShape& shape, int root);

}  // namespace kernbench::ccl
