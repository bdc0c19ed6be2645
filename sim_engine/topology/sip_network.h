// How the SIPs are joined, whatever the kind: which directed links a message between two SIPs
// passes, and what any set of SIPs can exchange at most.

#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim_engine/topology/location.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

class SipNetwork {
 public:
  explicit SipNetwork(const Topology& topology);

  // A directed link, by the SIP that it belongs to and its number there: of a grid by Compass, of a
  // full mesh by the number of the other SIP; of a switch kToSwitch and kFromSwitch.  Those between
  // nodes come last, from the innermost level: to_nodes() and from_nodes().  Of SIPs that share one
  // it belongs to the first.
  struct Link {
    int sip = 0;
    int number = 0;
  };
  static constexpr int kToSwitch = 0;
  static constexpr int kFromSwitch = 1;
  int to_nodes(int level) const { return links_in_node() + 2 * (level - 1); }
  int from_nodes(int level) const { return to_nodes(level) + 1; }
  bool is_of_nodes(int number) const { return number >= links_in_node(); }
  // The level of nodes that a link joins; 0: it lies in a node.
  int level_of(int number) const {
    return is_of_nodes(number) ? (number - links_in_node()) / 2 + 1 : 0;
  }

  // The grid of a node's SIPs.
  const Grid& grid() const { return grid_; }
  bool has_switch() const { return system_.topology == SipTopology::switched; }
  // True if any two SIPs are neighbours, over links that no other pair of senders or of receivers
  // uses.
  bool joins_all() const { return kernbench::joins_all(system_.topology); }

  // Nodes have levels from 1, the innermost one, to level_count(); 0: there are no nodes.
  bool has_nodes() const { return !levels_.empty(); }
  int level_count() const { return static_cast<int>(levels_.size()); }
  const NodeLevel& nodes(int level) const { return levels_[static_cast<std::size_t>(level - 1)]; }
  int sips_in_node(int level = 1) const {
    return sips_in_node_[static_cast<std::size_t>(level - 1)];
  }
  int node_count(int level = 1) const { return system_.sip_count / sips_in_node(level); }
  // A node's number; all SIPs are of one if there are no nodes.
  int node_of(int sip, int level = 1) const { return sip / sips_in_node(level); }
  // The level whose links join two SIPs; 0: they are of one innermost node.
  int level_between(int from, int to) const;
  // The section of a topology file that has a level: "nodes" of the outermost one, "nodes.nodes".
  std::string section_of(int level) const;
  // The number of a SIP as counted from another one, which is 0: forward in each dimension of the
  // grid and on each level, and round its end.  SIPs that stand alike see each other in one order.
  int place_seen_from(int sip, int other) const;
  // The SIP whose place, as counted from another one, is this (place_seen_from()).
  int sip_at(int place, int from) const;
  int sip_count() const { return static_cast<int>(system_.sip_count); }
  int links_per_sip() const;  // numbers; a SIP at an edge has fewer links
  std::string name_of_link(int number) const;

  // The SIPs along a dimension of a node's grid: x is 0.
  int size_along(int dimension) const;

  // The bandwidth and latency of a link.
  const LinkSpec& spec(const Link& link) const;
  bool has_unlike_links() const { return !specs_.empty(); }
  // The entry of system.sip_links that decides on a link; nullptr: none does.
  const UnlikeLinks* find_unlike(const Link& link) const;

  // The links from one SIP to another, in order.  The switch itself lies between its two.
  std::vector<Link> way(int from, int to) const;
  // The least latency from one SIP to another by any way, with the switch.
  Time latency(int from, int to) const;
  // The latency of way(), without the switch, beyond what links like system.sip_link would take.
  Time extra_latency(int from, int to) const;
  // The links out of a SIP on the way: 1 through a switch.
  int hops(int from, int to) const;

  // Counts of directed links, each of which may be several in parallel.  A switch's count where
  // they leave the SIPs, and so do those between nodes, which are counted apart.
  int degree(int sip) const;
  int link_count() const;
  int node_link_count(int level) const;

  // The bandwidth of all links out of a SIP together, of all links of the network, and of those
  // across its narrowest straight cut, one way.
  Bandwidth rate_of(int sip) const;
  Bandwidth rate() const;
  Bandwidth rate_across() const;
  // Returns the rate of all links between nodes of a level or of those outside of it that messages
  // out of such nodes take first.
  Bandwidth rate_between_nodes(int level) const;
  // Returns the rate from coordinate `border` of a dimension (x is 0) to the next one, one way.
  // REQUIRES: there are no nodes
  Bandwidth rate_across(int dimension, int border) const;
  // Return the rate of the fastest link in a node, and of the slowest one along a dimension.
  Bandwidth fastest() const;
  Bandwidth slowest(int dimension) const;
  Time diameter() const;
  // The least latency to a neighbour, or to all by way of a switch that adds up.
  Time to_neighbour() const;
  // The same on a level, and within a node at 0, if there are any on it.
  Time to_neighbour(int level) const;

 private:
  int links_in_node() const;
  void find_specs();
  std::vector<Link> links_out_of(int sip) const;  // within its node
  int neighbour_of(const Link& link) const;
  Bandwidth rate_in_node(int sip) const;
  Bandwidth rate_across(int dimension) const;
  Time in_node() const;  // to_neighbour() of the same node
  Time latency_in_node(int from, int to) const;
  Time by_other_nodes(int level) const;  // there and back, beyond a level
  // The levels whose links a message between nodes of a level passes, outer to inner; 0: a switch.
  std::vector<int> levels_passed(int level) const;
  // The rate of the links out of some SIPs on levels beyond one, of those that messages take first.
  Bandwidth rate_beyond(int level, int sips) const;
  Time in_switch() const;
  Time least_latency() const;
  Time least_latency(int dimension) const;

  const Topology::System system_;
  const Grid grid_;
  std::vector<NodeLevel> levels_;  // inner to outer
  std::vector<int> sips_in_node_;  // of each level, and all
  std::vector<LinkSpec> specs_;    // by SIP and number; empty: all in a node are system_.sip_link
  std::array<Time, 3> least_latencies_{};  // by dimension, of links where they are unlike
};

}  // namespace kernbench::sim
