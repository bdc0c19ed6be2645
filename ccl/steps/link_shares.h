// The model of a collective's time counts in links like system.sip_link: LinkShares says how much
// more, or less, a link of another kind takes.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/components/routing.h"
#include "sim_engine/topology/sip_network.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// The way between the first PEs of a cube of neighbouring SIPs that a link like system.sip_link
// joins; with a SIP in each node, one between the innermost nodes.  REQUIRES: there are at least
// two SIPs
sim::Path way_between_neighbours(const Topology& topology, int cube);

class LinkShares {
 public:
  static constexpr std::int64_t kWhole = 64;

  // REQUIRES: the topology has at least two SIPs
  explicit LinkShares(const Topology& topology);

  // Returns the time of bytes on a link in kWhole-ths of that on a link like system.sip_link, where
  // the rest of the way between PEs bounds both.
  std::int64_t of(const sim::SipNetwork::Link& link) const;
  // The latency of a message between two SIPs beyond that of so many links like system.sip_link.
  Time extra(int from, int to) const;
  // The latency of a message between neighbours; 0 if all links are alike.
  Time step() const { return step_; }

 private:
  bool has_levels() const;
  void find_levels();
  std::int64_t share_of_level(int level) const;
  void find_shares(const std::vector<UnlikeLinks>& unlike);

  const Topology like_;  // without unlike links
  const sim::SipNetwork network_;
  const Bandwidth slowest_;              // of the way between neighbours
  std::vector<std::int64_t> of_levels_;  // of nodes, from the innermost
  std::vector<Time> extra_of_levels_;
  std::map<std::int64_t, std::int64_t> of_unlike_;  // shares by bandwidth
  Time step_{0};
};

}  // namespace kernbench::ccl
