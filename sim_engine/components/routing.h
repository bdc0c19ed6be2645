// All directed links of the modelled system, and the way from one endpoint to another.
//
// Links are numbered by structure, so that a route is computed and never searched, and a system of
// a thousand SIPs needs no table.  Memory ports are links too: a message occupies the port of the
// memory that it leaves and of the one that it enters like any other hop.
//
// Modelled:     a cube's network as a crossbar with one port per PE and direction; where the
//               topology says so, a corner's PEs and their slices of HBM reach the rest of the cube
//               over one link each way, and each other without it (ADR-0248); UCIe between
//               neighbouring cubes, x before y; the IO chiplet on one edge of the cubes, over which
//               a message takes a hop to the cubes and one away from them; links between SIPs, in
//               dimension order on a grid, straight in a full mesh, and through a switch.
// Not modelled: buffers that fill up (no back-pressure into the network), adaptive routing.
// Deadlock:     dimension order on grids without wrap-around has no cycle; rings have, but as
//               nothing holds one link while it waits for the next, none can lock.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim_engine/components/operation.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/topology/folding.h"
#include "sim_engine/topology/location.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::sim {

using LinkId = std::uint32_t;

// The members that every link needs of a path come first, in one line of the host's cache.
struct alignas(64) Path {
  std::vector<LinkId> hops;    // the links that can cost time; the others are passed at once
  Time latency{0};             // sum over the links
  Time turn{0};                // what a write takes of its last hop, a port of HBM, besides bytes
  int hbm_hop = -1;            // the port of HBM among the hops; -1: none
  int from_sip = 0;
  int to_sip = 0;
  std::uint32_t from_place = 0;  // a number of the sender, unique within its SIP
  bool is_of_kernels = false;    // from or to a TCM, where only kernels' commands lead
  bool is_of_launch = false;     // from and to processors: launches, and the news of their ends
  bool is_hbm_bound = false;     // `slowest` is a port of HBM
  LinkId slowest = 0;            // the first link with the least bandwidth
  std::vector<LinkId> links;
  Bandwidth bottleneck;  // the slowest link's
  Time hbm_latency{0};   // the part of `latency` that is HBM's
  Bandwidth port;        // of the port of HBM, where `turn` is not 0
  // The sender's SIP as the SIP of each hop counts it, and at the end the receiver's
  // (SipNetwork::place_seen_from()).  None: the path stays in one SIP.
  std::vector<int> seen_places;

  int sender_seen_at(std::size_t hop) const { return seen_places.empty() ? 0 : seen_places[hop]; }

  // The time of a message without contention: every link's latency, plus the bytes over the slowest
  // link, or over the port of HBM with its turn if that takes longer.
  Time time_of(Bytes bytes) const {
    const Time moved = transfer_time(bytes, bottleneck);
    if (turn == Time{0}) return latency + moved;
    return latency + std::max(moved, transfer_time(bytes, port) + turn);
  }
};

class Routing {
 public:
  explicit Routing(const Topology& topology);

  LinkId link_count() const {
    return core_link() + static_cast<LinkId>(sips_.node_count()) * kSwitchLinks;
  }

  // Latency and bandwidth of a link.
  const LinkSpec& spec(LinkId link) const;

  // "sip0.link.east", "sip0.cube3.ucie.north", "sip0.cube3.pe5.tcm.read", ...
  std::string name(LinkId link) const;

  UnitClass find_class(LinkId link) const;

  // The unit whose energy the bytes on a link count for; nullopt of links without an energy of
  // their own: at an IO chiplet, out of and into corners, and in a switch.
  std::optional<EnergyUnit> find_energy_unit(LinkId link) const;

  // False of a link between SIPs, or at an IO chiplet, that the topology does not have: it neither
  // costs time nor limits bandwidth.
  bool is_there(LinkId link) const;

  // The SIP that a link belongs to.  The switch's are shown beside those of SIP 0.
  int sip_of(LinkId link) const {
    return link >= core_link() ? 0 : static_cast<int>(link / per_sip_);
  }

  // Returns the link that is simulated for this one.
  LinkId shift(LinkId link, const Folding& folding) const;

  // The way a message takes.
  // REQUIRES: both endpoints exist
  Path route(const Endpoint& from, const Endpoint& to) const;

  // A 32-bit number, unique per endpoint.
  std::uint64_t make_key(const Endpoint& end) const {
    const auto cube =
        static_cast<std::uint64_t>(end.at.sip) * static_cast<unsigned>(cubes_.count()) +
        static_cast<unsigned>(end.at.cube);
    return (cube * static_cast<unsigned>(topology_.pe_count()) + static_cast<unsigned>(end.at.pe)) *
               8 +
           static_cast<unsigned>(end.kind);
  }

  // The number of slices that a cube's HBM is divided into, and the slice that is local to a PE.
  static int hbm_slice_count(const Topology& topology);
  static int hbm_slice_of(const Topology& topology, int pe);
  // The slices that are local to the first so many PEs of a cube.
  static int count_hbm_slices(const Topology& topology, int pes);
  // The most of these PEs that share a slice of HBM, and a cube.
  // REQUIRES: ordered by SIP and cube
  static Sharers count_sharers(const Topology& topology, std::span<const PeLocation> pes);
  // Returns the bandwidth of a slice, its channels' times the efficiency.  Whatever compares a time
  // with HBM's bandwidth takes it from here.
  static LinkSpec hbm_slice(const Topology& topology);

 private:
  enum SipLink : LinkId { kHostDown, kHostUp, kIoOut, kIoIn, kSipOut };
  enum CubeLink : LinkId { kUcieOut, kToIo = kCubeSides, kFromIo, kSram, kCorners };
  enum CornerLink : LinkId { kCornerOut, kCornerIn, kPerCorner };
  enum PeLink : LinkId { kNocOut, kNocIn, kTcmRead, kTcmWrite, kPerPe };

  enum SwitchLink : LinkId { kCore, kSums, kSwitchLinks };  // of a node, behind those of all SIPs

  LinkId core_link() const { return static_cast<LinkId>(topology_.system.sip_count) * per_sip_; }
  LinkId sip_link(int sip, LinkId kind) const { return static_cast<LinkId>(sip) * per_sip_ + kind; }
  LinkId cube_link(int sip, int cube, LinkId kind) const {
    return sip_link(sip, cubes_at_ + static_cast<LinkId>(cube) * per_cube_ + kind);
  }
  LinkId pe_link(const PeLocation& at, LinkId kind) const {
    return cube_link(at.sip, at.cube, pes_at_ + static_cast<LinkId>(at.pe) * kPerPe + kind);
  }
  LinkId hbm_link(const PeLocation& at) const;
  bool is_hbm(LinkId link) const;
  std::optional<int> find_corner(const Endpoint& end) const;
  void pass_corner(const Endpoint& end, LinkId direction, std::vector<LinkId>& links) const;

  void leave(const Endpoint& from, std::vector<LinkId>& links) const;
  void enter(const Endpoint& to, std::vector<LinkId>& links) const;
  void cross_cubes(int sip, int from, int to, std::vector<LinkId>& links) const;
  void cross_sips(const Endpoint& from, const Endpoint& to, std::vector<LinkId>& links) const;
  void leave_sip(const Endpoint& from, std::vector<LinkId>& links) const;
  void enter_sip(const Endpoint& to, std::vector<LinkId>& links) const;
  // Adds a link that need not be modelled, if it costs time.
  void pass(LinkId link, std::vector<LinkId>& links) const;
  LinkId parallel_link(const SipNetwork::Link& link, const PeLocation& pe) const;
  int io_cube(int cube) const;

  const Topology topology_;
  const Grid cubes_;
  const SipNetwork sips_;
  const std::ptrdiff_t corners_;  // with links of their own
  const LinkId hbm_at_;           // within a cube's links
  const LinkId hbm_slices_;
  const LinkId pes_at_;
  const LinkId per_cube_;
  const LinkId cubes_at_;  // the first link of a SIP's cubes
  const LinkId per_sip_;
  LinkSpec hbm_;
  LinkSpec sram_;
  LinkSpec tcm_;
  LinkSpec sums_;
};

}  // namespace kernbench::sim
