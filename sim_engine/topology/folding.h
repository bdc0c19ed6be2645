// One SIP is simulated for others that do the same at the same times: its followers (ADR-0174).
//
// A shift counts all SIPs on by equally many places in each dimension of the network, and round its
// end.  Where it takes ways to ways over links of their own, a SIP and the one to which it is taken
// see the same network.  Shifts by a period divide the SIPs into classes, and the first SIP of each
// is simulated for all.

#pragma once

#include <string_view>
#include <vector>

#include "sim_engine/topology/sip_network.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::sim {

class Folding {
 public:
  // Period 1: all SIPs do alike.  Period 2: in each dimension of an even number of SIPs every other
  // one does, and in others all do.  A longer one, p: those do whose numbers are multiples of p
  // apart, where groups of p fill a part of a row, or rows.  Of nodes, SIPs of the same number in
  // their outermost nodes do, where the period divides how many these have.
  //
  // This is the longest that serves collectives of all SIPs; those of groups of neighbours, such as
  // tensor parallel ones, have the period of the group.
  static constexpr int kLargestPeriod = 2;

  // Says why shifts by a period do not take the machine to itself; "" if they do.
  static std::string_view find_obstacle(const Topology& topology, int period);

  // `period` 0: each SIP is simulated.
  // REQUIRES: find_obstacle(topology, period).empty() for other periods
  Folding(const Topology& topology, int period);

  bool is_on() const { return !firsts_.empty(); }
  // Returns the SIP that is simulated for this one.
  int first_of(int sip) const { return is_on() ? firsts_[static_cast<std::size_t>(sip)] : sip; }
  bool is_simulated(int sip) const { return first_of(sip) == sip; }
  // Returns the number of a SIP's first one among those that are simulated.
  int index_of(int sip) const {
    return is_on() ? indices_[static_cast<std::size_t>(first_of(sip))] : sip;
  }
  int simulated_count() const { return simulated_; }
  // SIPs that each simulated one stands for, with itself.
  int sips_of_each() const { return network_.sip_count() / simulated_; }
  // Returns where the shift that takes `sip` to its first one takes another SIP.
  int shift(int other, int sip) const;
  // Returns where the shift back, from a SIP's first one to that SIP, takes another SIP.
  int shift_back(int other, int sip) const;
  // Returns the link that the shift which takes its SIP to the first one takes it to.
  SipNetwork::Link shift(const SipNetwork::Link& link) const;

 private:
  const SipNetwork network_;
  std::vector<int> firsts_;   // by SIP; empty: none stands for another
  std::vector<int> indices_;  // by SIP that is simulated
  int simulated_ = 0;
};

}  // namespace kernbench::sim
