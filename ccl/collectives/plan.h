// Which steps each lane of a member takes, for each pattern of collectives.  Pure functions: the
// steps of all members fit together, since all are made of the same fragments.

#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ccl/collectives/fragments.h"
#include "ccl/collectives/step.h"
#include "runtime/distributed/collective.h"

namespace kernbench::ccl {

// Blocks of the same elements, cut once for all members that give or take them.
struct Cut {
  std::vector<BlockLayout> layouts;                 // that there are
  std::map<Lane, std::vector<Fragment>> fragments;  // of the size of a step; at: by layout
};

// A cut, and which of its layouts is that of each member's block.
struct SharedCut {
  std::shared_ptr<const Cut> cut;
  std::vector<int> gives;  // by member; kNobody: it gives no such block
  std::vector<int> takes;
};

// The members in an order in which neighbours are near each other: that of the ring through all
// SIPs.
struct MemberRing {
  std::vector<int> members;    // by position
  std::vector<int> positions;  // by member
  std::vector<int> nodes;      // by position: the place of its SIP in the ring of all, ascending
  int node_count = 0;          // of that ring
  bool closes = false;         // whether its last SIP is a neighbour of its first

  int size() const { return static_cast<int>(members.size()); }
  // The member `distance` positions further on; before, if it is negative.
  int member_after(int member, int distance) const;
};

MemberRing member_ring(const Topology& topology, const std::vector<int>& sips);

// One member's view of a collective.
struct MemberView {
  const distributed::CollectiveRequest& request;  // its own
  const MemberRing& ring;
  int self = 0;
};

using LaneSteps = std::map<Lane, std::vector<Step>>;

// Which of the patterns below a collective of a group takes: "ring", "chain" or "pairs".
std::string_view pattern_of(distributed::CollectiveKind kind);

// A block of a member's, as a fragment of a cut meets it.
ShardRange shard_range(const distributed::Block& block, const Cut& cut, int layout,
                       const Fragment& fragment);

// Ring, in one direction, P - 1 steps each for reduce-scatter and all-gather: all_reduce (`cuts`
// has one, whose fragments are cut in P chunks), all_gather and reduce_scatter (one for each
// member). T = (P - 1)(a + n/P b) for each half, of n bytes over neighbours that are not shared.
LaneSteps ring_steps(const MemberView& view, const std::vector<SharedCut>& cuts);

// Chains from the root both ways round the ring: broadcast, and reduce in the opposite direction.
// Fragments follow each other: T = (h + k - 1)(a + n/k b) over h hops, with k fragments, less where
// they overlap.
LaneSteps chain_steps(const MemberView& view, const SharedCut& cut);

// Directly from giver to taker, who are s positions apart in step s: gather, scatter, all_to_all
// and messages.  `out` is what the member gives to each, `in` what it takes from each; null:
// nothing.
struct PairCuts {
  std::vector<std::shared_ptr<const Cut>> out;  // layouts: giver, taker; or one, if they are alike
  std::vector<std::shared_ptr<const Cut>> in;
};
LaneSteps pair_steps(const MemberView& view, const PairCuts& cuts);

}  // namespace kernbench::ccl
