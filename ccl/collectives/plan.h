// Plans the steps of each lane of a member, for each pattern of collectives.  The functions are
// pure: the steps of all members fit together, since all are made from the same fragments.

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
  std::vector<BlockLayout> layouts;                 // the different layouts of the blocks
  std::map<Lane, std::vector<Fragment>> fragments;  // at most as large as a step; `at` is by layout
};

// A cut, and the index of each member's layout in it.
struct SharedCut {
  std::shared_ptr<const Cut> cut;
  std::vector<int> gives;  // by member; kNobody: it gives no block
  std::vector<int> takes;
};

// The members in an order in which neighbours are close: that of the ring through all SIPs.
struct MemberRing {
  std::vector<int> members;    // by position
  std::vector<int> positions;  // by member
  std::vector<int> nodes;      // by position: its SIP's place in the ring of all SIPs, ascending
  int node_count = 0;          // SIPs in that ring
  bool closes = false;         // true if that ring's last SIP is a neighbour of its first

  int size() const { return static_cast<int>(members.size()); }
  // Returns the member `distance` positions further on, or back if it is negative.
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

// Returns the pattern that a collective of a group uses: "ring", "chain" or "pairs".
std::string_view pattern_of(distributed::CollectiveKind kind);

// Returns the elements of a member's block that a fragment of a cut covers.
ShardRange shard_range(const distributed::Block& block, const Cut& cut, int layout,
                       const Fragment& fragment);

// Plans a ring in one direction, with P - 1 steps each for reduce-scatter and all-gather.  It
// serves all_reduce (`cuts` has one, whose fragments are cut into P chunks), all_gather and
// reduce_scatter (`cuts` has one for each member).  T = (P - 1)(a + n/P b) for each half, of n
// bytes over neighbours that are not shared.
LaneSteps ring_steps(const MemberView& view, const std::vector<SharedCut>& cuts);

// Plans chains from the root both ways round the ring for broadcast, and in the opposite direction
// for reduce.  Fragments follow each other: T = (h + k - 1)(a + n/k b) over h hops, with k
// fragments, less where they overlap.
LaneSteps chain_steps(const MemberView& view, const SharedCut& cut);

// Plans direct messages, whose giver and taker are s positions apart in step s: gather, scatter,
// all_to_all and messages.  `out` has what the member gives to each member, `in` what it takes
// from each; null: nothing.
struct PairCuts {
  std::vector<std::shared_ptr<const Cut>> out;  // layouts: giver, taker; one if they are equal
  std::vector<std::shared_ptr<const Cut>> in;
};
LaneSteps pair_steps(const MemberView& view, const PairCuts& cuts);

}  // namespace kernbench::ccl
