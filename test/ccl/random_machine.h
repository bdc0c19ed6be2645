// Machines of every kind of network with every key that lies between PEs, memories and SIPs drawn.

#pragma once

#include <fmt/format.h>

#include <string>

#include "sim_engine/topology/topology.h"
#include "test/support/pick.h"
#include "test/support/small_topology.h"

namespace kernbench::test {

inline Topology random_network(SipTopology kind, Pick& pick) {
  if (kind == SipTopology::torus_3d) {
    const int w = pick(1, 3);
    const int h = pick(1, 3);
    return joined_topology(kind, w, h, pick(1, 3));
  }
  if (!has_rows(kind)) return joined_topology(kind, pick(2, 9));
  const int w = pick(1, 3);
  return link_topology(kind, w, pick(w == 1 ? 2 : 1, 3));
}

inline Topology random_machine(SipTopology kind, Pick& pick) {
  Topology topology = random_network(kind, pick);
  topology.cube.pe_per_corner = pick(1, 3);
  if (pick.coin()) topology.cube.corners.push_back("SE");
  HbmSpec& hbm = topology.cube.hbm;
  hbm.channels = topology.pe_count() * pick(1, 2);
  hbm.slices = pick(0, 1);
  hbm.bandwidth = pick.gigabytes(5, 50);
  hbm.efficiency.millionths = pick(500, 1000) * 1000;
  if (pick.coin()) hbm.turn_around = Time{pick(1, 40) * 1000};
  if (pick.coin()) {
    topology.cube.noc = {pick.gigabytes(50, 100), Time{2'000}};
    topology.cube.corner = {pick.gigabytes(50, 200), Time{pick(0, 4) * 1000}};
  }
  if (pick.coin()) {
    topology.pe.math_lanes = 16;
    topology.pe.math_clock = Frequency{1'000'000'000};
    topology.pe.tcm.compute_bandwidth = pick.gigabytes(20, 200);
  }
  topology.launch.blocking = pick.coin();
  topology.communication.packet = pick(0, 2) * 1024;
  topology.system.links_per_pair = pick(1, 4);
  topology.sip.io_hop = {pick.gigabytes(50, 500), Time{pick(0, 90) * 1000}};
  if (kind != SipTopology::switched) return topology;
  SwitchSpec& joint = topology.system.network_switch;
  joint.core.latency = Time{pick(0, 200) * 1000};
  if (pick.coin()) joint.core.bandwidth = pick.gigabytes(50, 300);
  if (pick.coin()) joint.sums = LinkSpec{pick.gigabytes(20, 90), Time{5'000}};
  return topology;
}

// Protocols of ccl.yaml, whose times may be so many times as long; or none.
class RandomProtocols {
 public:
  explicit RandomProtocols(Pick& pick)
      : are_there_(pick.coin()),
        up_to_(pick(1, 8)),
        low_(pick(0, 500)),
        efficiency_(pick(30, 100)),
        high_(pick(0, 3000)) {}

  bool are_there() const { return are_there_; }
  std::string text(int factor = 1) const {
    if (!are_there_) return "";
    return fmt::format(
        "protocols:\n  - low: {{up_to: {} KiB, latency: {} ns, efficiency: {} %}}\n"
        "  - high: {{latency: {} ns}}\n",
        up_to_, factor * low_, efficiency_, factor * high_);
  }

 private:
  bool are_there_;
  int up_to_;
  int low_;
  int efficiency_;
  int high_;
};

// Calls rate(r) for each rate of a machine and time(t) for each of its times.
template <class OnRate, class OnTime>
void visit_rates_and_times(Topology& topology, const OnRate& rate, const OnTime& time) {
  auto& [name, system, sip, cube, pe, communication, launch, energy, faults] = topology;
  const auto link = [&](LinkSpec& spec) {
    rate(spec.bandwidth);
    time(spec.latency);
  };
  link(system.sip_link);
  link(system.network_switch.core);
  if (system.network_switch.sums) link(*system.network_switch.sums);
  link(system.nodes.link);
  link(system.host_link);
  link(sip.ucie);
  link(sip.io_hop);
  link(cube.noc);
  link(cube.corner);
  for (Bandwidth* bandwidth :
       {&cube.sram.bandwidth, &cube.hbm.bandwidth, &pe.tcm.bandwidth, &pe.tcm.compute_bandwidth}) {
    rate(*bandwidth);
  }
  rate(pe.math_clock);
  rate(pe.gemm.clock);
  for (Time* one :
       {&system.host_issue, &sip.io_cpu_dispatch, &cube.m_cpu_dispatch, &cube.sram.latency,
        &cube.hbm.latency, &cube.hbm.turn_around, &pe.cpu_issue, &pe.scheduler_dispatch,
        &pe.dma_setup, &pe.mmu_latency, &pe.tcm.latency, &pe.ipcq_latency}) {
    time(*one);
  }
}

}  // namespace kernbench::test
