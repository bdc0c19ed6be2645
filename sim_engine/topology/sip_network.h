// How the SIPs are joined, whatever the kind: which directed links a message between two SIPs
// passes, and what any set of SIPs can exchange at most.

#pragma once

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
  // nodes come last: to_nodes() and from_nodes().  Of SIPs that share one it belongs to the first.
  struct Link {
    int sip = 0;
    int number = 0;
  };
  static constexpr int kToSwitch = 0;
  static constexpr int kFromSwitch = 1;
  int to_nodes() const { return links_in_node(); }
  int from_nodes() const { return links_in_node() + 1; }
  bool is_of_nodes(int number) const { return has_nodes() && number >= to_nodes(); }

  const Grid& grid() const { return grid_; }
  bool has_switch() const { return system_.topology == SipTopology::switched; }
  // True if any two SIPs are neighbours, over links that no other pair of senders or of receivers
  // uses.
  bool joins_all() const { return kernbench::joins_all(system_.topology); }
  bool has_nodes() const { return system_.nodes.count > 1; }
  // A node's number; all SIPs are of one if there are no nodes.
  int node_of(int sip) const { return has_nodes() ? sip / system_.w : 0; }
  int links_per_sip() const;  // numbers; a SIP at an edge has fewer links
  std::string name_of_link(int number) const;

  // The links from one SIP to another, in order.  The switch itself lies between its two.
  std::vector<Link> way(int from, int to) const;
  // The least latency of the way, with the switch.
  Time latency(int from, int to) const;
  // The links out of a SIP on the way: 1 through a switch.
  int hops(int from, int to) const;

  // Counts of directed links, each of which may be several in parallel.  A switch's count where
  // they leave the SIPs, and so do those between nodes, which are counted apart.
  int degree(int sip) const;
  int link_count() const;
  int node_link_count() const;
  // Across the narrowest straight cut, one way.
  int cut_width() const;

  // The bandwidth of all links out of a SIP together, of all links of the network, and of those
  // across its narrowest cut.
  Bandwidth rate_of(int sip) const;
  Bandwidth rate() const;
  Bandwidth rate_across() const;
  Time diameter() const;
  // The least latency to a neighbour, or to all by way of a switch that adds up.
  Time to_neighbour() const;

 private:
  int links_in_node() const;
  Time in_node() const;  // to_neighbour() of the same node
  int neighbour_count(int sip) const;
  int cut_width(int size) const;

  const Topology::System system_;
  const Grid grid_;
};

}  // namespace kernbench::sim
