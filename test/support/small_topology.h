// Topologies with round numbers, for tests that state exact times.

#pragma once

#include <array>

#include "sim_engine/topology/topology.h"

namespace kernbench::test {

// The kinds in which SIPs stand in a plane.
inline constexpr std::array kGridTopologies = {SipTopology::ring_1d, SipTopology::torus_2d,
                                               SipTopology::mesh_2d_no_wrap};

// 2 SIPs in a ring, 1 cube, 1 PE, without latency or overhead and with unlimited bandwidth.
inline Topology free_topology() {
  Topology topology;
  topology.name = "free";
  topology.system.sip_count = topology.system.w = 2;
  topology.cube.corners = {"NW"};
  topology.cube.sram.capacity = Bytes{1} << 40;  // for queues that never limit anything
  topology.cube.hbm.capacity = 1 << 30;
  topology.pe.mmu_page = 1 << 21;
  topology.pe.tcm.capacity = 1 << 21;
  return topology;
}

// w x h SIPs of cubes_w x cubes_h cubes of 2 PEs; every kind of link has its own round latency.
inline Topology round_topology(SipTopology kind = SipTopology::ring_1d, int w = 2, int h = 1,
                               int cubes_w = 1, int cubes_h = 1) {
  constexpr std::int64_t kGBs = 1'000'000'000;
  Topology topology = free_topology();
  topology.name = "round";
  topology.system.topology = kind;
  topology.system.w = kind == SipTopology::ring_1d ? w * h : w;
  topology.system.h = kind == SipTopology::ring_1d ? 1 : h;
  topology.system.sip_count = w * h;
  topology.system.sip_link = {Bandwidth{10 * kGBs}, Time{100'000}};
  topology.system.host_link = {Bandwidth{10 * kGBs}, Time{200'000}};
  topology.sip.cubes_w = cubes_w;
  topology.sip.cubes_h = cubes_h;
  topology.sip.ucie = {Bandwidth{100 * kGBs}, Time{5'000}};
  topology.cube.pe_per_corner = 2;
  topology.cube.noc = {Bandwidth{20 * kGBs}, Time{2'000}};
  topology.cube.sram.bandwidth = Bandwidth{200 * kGBs};
  topology.cube.sram.latency = Time{3'000};
  topology.cube.hbm.channels = 2;
  topology.cube.hbm.bandwidth = Bandwidth{40 * kGBs};
  topology.cube.hbm.latency = Time{50'000};
  topology.pe.tcm.bandwidth = Bandwidth{1000 * kGBs};
  topology.pe.tcm.latency = Time{1'000};
  return topology;
}

// 2 SIPs of 2 cubes of 2 PEs.
inline Topology small_topology() {
  return round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
}

// Only links take time: those between w x h SIPs (500 ns, 50 GB/s) and, if there are several cubes,
// those between cubes (20 ns, 128 GB/s).  One PE per cube.
inline Topology link_topology(SipTopology kind, int w, int h = 1, int cubes_w = 1,
                              int cubes_h = 1) {
  constexpr std::int64_t kGBs = 1'000'000'000;
  Topology topology = free_topology();
  topology.name = "links";
  topology.system.topology = kind;
  topology.system.w = w;
  topology.system.h = h;
  topology.system.sip_count = w * h;
  topology.system.sip_link = {Bandwidth{50 * kGBs}, Time{500'000}};
  topology.sip.cubes_w = cubes_w;
  topology.sip.cubes_h = cubes_h;
  topology.pe.tcm.capacity = 1 << 30;  // so that nothing is segmented for lack of scratch
  if (cubes_w * cubes_h > 1) topology.sip.ucie = {Bandwidth{128 * kGBs}, Time{20'000}};
  return topology;
}

// Returns a topology with `w` SIPs, each joined to each or to a switch, or with w x h x d of them
// in a torus.
inline Topology joined_topology(SipTopology kind, int w, int h = 1, int d = 1) {
  Topology topology = link_topology(kind, w * h * d);
  if (kind != SipTopology::torus_3d) return topology;
  topology.system.w = w;
  topology.system.h = h;
  topology.system.d = d;
  return topology;
}

// The same SIPs in nodes of so many each, with links of 10 GB/s and 1 us between nodes.
inline Topology in_nodes(Topology topology, int in_node) {
  topology.system.w = in_node;
  topology.system.h = topology.system.nodes.count = topology.system.sip_count / in_node;
  topology.system.nodes.link = {Bandwidth{10'000'000'000}, Time{1'000'000}};
  return topology;
}

// The same SIPs, `in_board` in each of the boards that nodes have, with links of 25 GB/s and 700 ns
// between the boards of a node.  The nodes have grids of their own where SIPs stand in a ring.
inline Topology in_boards(Topology topology, int in_board, int boards) {
  topology = in_nodes(topology, in_board * boards);
  topology.system.h = topology.system.sip_count / in_board;
  if (topology.system.topology == SipTopology::ring_1d) topology.system.h = 1;
  topology.system.w = in_board;
  topology.system.nodes.inner = {{boards, {Bandwidth{25'000'000'000}, Time{700'000}}}};
  return topology;
}

}  // namespace kernbench::test
