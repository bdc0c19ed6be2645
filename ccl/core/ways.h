// The links that messages between members of a group pass, and how what a collective moves can be
// spread over them.
//
// A message goes the way that the network's routing says; another way leads over a member that
// sends it on.  A group's rate is therefore limited by the links that its members' ways share, not
// by all links of its SIPs.

#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ccl/core/flow_graph.h"
#include "ccl/core/least_tree.h"
#include "runtime/distributed/options.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// The route by which an equal share of what a collective moves travels: along trees, towards a root
// and away from it, or from one member to another.
struct Route {
  int root = -1;           // of the trees
  std::vector<int> up;     // by member, the next one towards the root; empty: nothing is summed up
  std::vector<int> down;   // likewise, from the root; empty: results stay there
  std::vector<int> stops;  // of a way, from the giver to the taker
};

// Routes of `chunk_count` equal shares of every block, such that the busiest link carries little.
struct Packing {
  int chunk_count = 1;
  std::vector<Route> routes;
  double load = 0;  // blocks that the busiest link carries
  // The load that it carries by any algorithm, as far as the search for the routes tells.
  double least_load = 0;
};

class Ways {
 public:
  using Kind = distributed::CollectiveKind;

  // The most members of a group whose ways are searched for any collective.
  static constexpr int kMostMembers = 8;
  // The most members for collectives with one root, of groups that have joins(): a flow is found
  // faster.
  static constexpr int kMostJoined = 64;

  Ways(const Topology& topology, std::span<const int> sips);

  int size() const { return size_; }
  int link_count() const { return link_count_; }
  std::span<const int> links(int from, int to) const {
    return links_[static_cast<std::size_t>(from * size_ + to)];
  }
  // Returns what messages cost if a link costs so much.
  MessageCosts costs(const std::vector<double>& by_link) const;

  // The links between members, by which messages between any two of them go; null if messages pass
  // links of others, too.
  const FlowGraph* joins() const { return joins_.get(); }
  // True if what a collective moves is a flow over joins(), out of its root or into it.
  bool has_flow(Kind kind) const;
  // True if the group is small enough for the collective.
  bool serves(Kind kind) const { return size_ <= kMostMembers || has_flow(kind); }

  // Found when it is first asked for.  REQUIRES: serves(kind)
  const Packing& packing(Kind kind, int root) const;

  // The blocks that the busiest link carries by any algorithm, if all blocks have one size; 0 where
  // it is not known.
  double least_load(Kind kind, int root) const;

 private:
  int size_;
  int link_count_ = 0;
  std::vector<std::vector<int>> links_;
  std::shared_ptr<const FlowGraph> joins_;
  mutable std::map<std::pair<Kind, int>, Packing> packings_;
  mutable std::map<std::pair<Kind, int>, double> least_loads_;
};

// Null where any two SIPs are neighbours over links of their own, and for too many members.
std::shared_ptr<const Ways> ways_of_sips(const Topology& topology, std::span<const int> sips);

}  // namespace kernbench::ccl
