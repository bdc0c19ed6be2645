#include "test/support/topology_yaml_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

namespace kernbench::test {

namespace {

std::string to_text(Bandwidth rate) {
  return rate.is_unlimited() ? "unlimited" : fmt::format("{} B/s", rate.per_second);
}

std::string to_text(Frequency rate) {
  return rate.is_unlimited() ? "unlimited" : fmt::format("{} Hz", rate.per_second);
}

std::string to_text(Time time) {
  return fmt::format("{} ps", time.count());
}

std::string to_text(const LinkSpec& link) {
  return fmt::format("{{bandwidth: {}, latency: {}}}", to_text(link.bandwidth),
                     to_text(link.latency));
}

std::string to_text(const SwitchSpec& spec) {
  const std::string sums = spec.sums ? ", sums: " + to_text(*spec.sums) : std::string();
  return fmt::format("  switch: {{latency: {}, bandwidth: {}{}}}\n", to_text(spec.core.latency),
                     to_text(spec.core.bandwidth), sums);
}

std::string to_text(const NodesSpec& nodes) {
  std::vector<NodeLevel> levels = {nodes};
  levels.insert(levels.end(), nodes.inner.begin(), nodes.inner.end());
  std::string text;
  for (const NodeLevel& level : levels) {
    text += fmt::format("{}{{count: {}, link: {}, sips_per_link: {}, through_inner: {}",
                        text.empty() ? "" : ", nodes: ", level.count, to_text(level.link),
                        level.sips_per_link, level.through_inner);
  }
  return text + std::string(levels.size(), '}');
}

std::string to_text(const Topology::System& system) {
  std::string grid =
      has_rows(system.topology) ? fmt::format(", w: {}, h: {}", system.w, system.h) : std::string();
  if (system.topology == SipTopology::torus_3d) grid += fmt::format(", d: {}", system.d);
  std::string text = fmt::format(
      "system:\n"
      "  sips: {{count: {}, topology: {}{}}}\n"
      "  sip_link: {{bandwidth: {}, latency: {}, count: {}}}\n"
      "  host_link: {{bandwidth: {}, latency: {}, issue: {}}}\n",
      system.sip_count, name_of(system.topology), grid, to_text(system.sip_link.bandwidth),
      to_text(system.sip_link.latency), system.links_per_pair, to_text(system.host_link.bandwidth),
      to_text(system.host_link.latency), to_text(system.host_issue));
  if (system.topology == SipTopology::switched) text += to_text(system.network_switch);
  if (!system.unlike_links.empty()) text += "  sip_links:\n";
  for (const UnlikeLinks& links : system.unlike_links) {
    text += fmt::format("    {}: {}\n", to_string(links), to_text(links.link));
  }
  if (system.node_count() > 1) text += fmt::format("  nodes: {}\n", to_text(system.nodes));
  return text;
}

std::string to_text(const Topology::Sip& sip) {
  return fmt::format(
      "sip:\n"
      "  cube_mesh: {{w: {}, h: {}}}\n"
      "  ucie: {}\n"
      "  io_chiplet: {{edge: {}, dispatch: {}, bandwidth: {}, latency: {}}}\n",
      sip.cubes_w, sip.cubes_h, to_text(sip.ucie), name_of(sip.io_edge),
      to_text(sip.io_cpu_dispatch), to_text(sip.io_hop.bandwidth), to_text(sip.io_hop.latency));
}

std::string to_text(const Topology::Cube& cube) {
  return fmt::format(
      "cube:\n"
      "  pe_layout: {{corners: [{}], pe_per_corner: {}}}\n"
      "  noc: {{bandwidth: {}, latency: {}, corner: {}}}\n"
      "  m_cpu: {{dispatch: {}}}\n"
      "  sram: {{capacity: {} B, bandwidth: {}, latency: {}}}\n"
      "  hbm: {{channels: {}, bandwidth: {}, latency: {}, capacity: {} B, "
      "efficiency: {} %, turn_around: {}{}}}\n",
      fmt::join(cube.corners, ", "), cube.pe_per_corner, to_text(cube.noc.bandwidth),
      to_text(cube.noc.latency), to_text(cube.corner), to_text(cube.m_cpu_dispatch),
      cube.sram.capacity, to_text(cube.sram.bandwidth), to_text(cube.sram.latency),
      cube.hbm.channels, to_text(cube.hbm.bandwidth), to_text(cube.hbm.latency), cube.hbm.capacity,
      cube.hbm.efficiency.millionths / 1e4, to_text(cube.hbm.turn_around),
      cube.hbm.slices > 0 ? fmt::format(", slices: {}", cube.hbm.slices) : "");
}

std::string to_text(const MathCycles& cycles) {
  std::string text;
  for (const MathKind kind : kMathKinds) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name_of(kind), cycles[kind]);
  }
  return '{' + text + '}';
}

std::string to_text(const Topology::Pe& pe) {
  std::string text = fmt::format(
      "pe:\n"
      "  cpu: {{issue: {}}}\n"
      "  scheduler: {{dispatch: {}}}\n"
      "  dma: {{setup: {}}}\n"
      "  mmu: {{latency: {}, page: {} B}}\n"
      "  math: {{lanes: {}, f16_per_lane: {}, clock: {}, cycles: {}}}\n",
      to_text(pe.cpu_issue), to_text(pe.scheduler_dispatch), to_text(pe.dma_setup),
      to_text(pe.mmu_latency), pe.mmu_page, pe.math_lanes, pe.math_f16_per_lane,
      to_text(pe.math_clock), to_text(pe.math_cycles));
  text += fmt::format("  gemm: {{rows: {}, columns: {}, dataflow: {}, clock: {}, overlap: {}, "
                      "f8_per_cell: {}}}\n",
                      pe.gemm.rows, pe.gemm.columns, name_of(pe.gemm.dataflow),
                      to_text(pe.gemm.clock), pe.gemm.overlap, pe.gemm.f8_per_cell);
  text +=
      fmt::format("  tcm: {{capacity: {} B, bandwidth: {}, latency: {}, compute_bandwidth: {}}}\n",
                  pe.tcm.capacity, to_text(pe.tcm.bandwidth), to_text(pe.tcm.latency),
                  to_text(pe.tcm.compute_bandwidth));
  return text + fmt::format("  ipcq: {{latency: {}}}\n", to_text(pe.ipcq_latency));
}

std::string to_text(const Topology::Communication& communication) {
  return fmt::format("communication: {{packet: {} B, scratch: {} B}}\n", communication.packet,
                     communication.scratch);
}

std::string to_text(const Topology::Launch& launch) {
  return fmt::format("launch: {{blocking: {}}}\n", launch.blocking);
}

std::string to_text(const EnergySpec& energy) {
  std::string text;
  for (const EnergyUnit unit : kEnergyUnits) {
    text += fmt::format("{}{}: {} fJ/{}", text.empty() ? "" : ", ", name_of(unit), energy[unit],
                        counts_operations(unit) ? "FLOP" : "B");
  }
  return fmt::format("energy: {{{}}}\n", text);
}

std::string to_text(const std::vector<Fault>& faults) {
  if (faults.empty()) return "";
  std::string text = "faults:\n";
  for (const Fault& fault : faults) text += fmt::format("  - {}\n", fault.text);
  return text;
}

}  // namespace

std::string to_yaml(const Topology& topology) {
  return "kernbench_topology: 1\n" + to_text(topology.system) + to_text(topology.sip) +
         to_text(topology.cube) + to_text(topology.pe) + to_text(topology.communication) +
         to_text(topology.launch) + to_text(topology.energy) + to_text(topology.faults);
}

}  // namespace kernbench::test
