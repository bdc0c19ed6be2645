// Topology::parse(): topology files.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "sim_engine/topology/topology.h"
#include "test/fuzz/parser.h"

namespace kernbench::fuzz::topology_yaml {

namespace {

std::string text_of(Bandwidth rate) {
  return rate.is_unlimited() ? "unlimited" : fmt::format("{} B/s", rate.per_second);
}

std::string text_of(Frequency rate) {
  return rate.is_unlimited() ? "unlimited" : fmt::format("{} Hz", rate.per_second);
}

std::string text_of(Time time) {
  return fmt::format("{} ps", time.count());
}

std::string text_of(const LinkSpec& link) {
  return fmt::format("{{bandwidth: {}, latency: {}}}", text_of(link.bandwidth),
                     text_of(link.latency));
}

std::string text_of(const SwitchSpec& spec) {
  const std::string sums = spec.sums ? ", sums: " + text_of(*spec.sums) : std::string();
  return fmt::format("  switch: {{latency: {}, bandwidth: {}{}}}\n", text_of(spec.core.latency),
                     text_of(spec.core.bandwidth), sums);
}

std::string text_of(const Topology::System& system) {
  std::string grid =
      has_rows(system.topology) ? fmt::format(", w: {}, h: {}", system.w, system.h) : std::string();
  if (system.topology == SipTopology::torus_3d) grid += fmt::format(", d: {}", system.d);
  std::string text = fmt::format(
      "system:\n"
      "  sips: {{count: {}, topology: {}{}}}\n"
      "  sip_link: {{bandwidth: {}, latency: {}, count: {}}}\n"
      "  host_link: {{bandwidth: {}, latency: {}, issue: {}}}\n",
      system.sip_count, name_of(system.topology), grid, text_of(system.sip_link.bandwidth),
      text_of(system.sip_link.latency), system.links_per_pair, text_of(system.host_link.bandwidth),
      text_of(system.host_link.latency), text_of(system.host_issue));
  if (system.topology == SipTopology::switched) text += text_of(system.network_switch);
  return text;
}

std::string text_of(const Topology::Sip& sip) {
  return fmt::format(
      "sip:\n"
      "  cube_mesh: {{w: {}, h: {}}}\n"
      "  ucie: {}\n"
      "  io_chiplet: {{edge: {}, dispatch: {}, bandwidth: {}, latency: {}}}\n",
      sip.cubes_w, sip.cubes_h, text_of(sip.ucie), name_of(sip.io_edge),
      text_of(sip.io_cpu_dispatch), text_of(sip.io_hop.bandwidth), text_of(sip.io_hop.latency));
}

std::string text_of(const Topology::Cube& cube) {
  return fmt::format(
      "cube:\n"
      "  pe_layout: {{corners: [{}], pe_per_corner: {}}}\n"
      "  noc: {{bandwidth: {}, latency: {}, corner: {}}}\n"
      "  m_cpu: {{dispatch: {}}}\n"
      "  sram: {{capacity: {} B, bandwidth: {}, latency: {}}}\n"
      "  hbm: {{channels: {}, bandwidth: {}, latency: {}, capacity: {} B, "
      "efficiency: {} %, turn_around: {}{}}}\n",
      fmt::join(cube.corners, ", "), cube.pe_per_corner, text_of(cube.noc.bandwidth),
      text_of(cube.noc.latency), text_of(cube.corner), text_of(cube.m_cpu_dispatch),
      cube.sram.capacity, text_of(cube.sram.bandwidth), text_of(cube.sram.latency),
      cube.hbm.channels, text_of(cube.hbm.bandwidth), text_of(cube.hbm.latency), cube.hbm.capacity,
      cube.hbm.efficiency / 10.0, text_of(cube.hbm.turn_around),
      cube.hbm.slices > 0 ? fmt::format(", slices: {}", cube.hbm.slices) : "");
}

std::string text_of(const MathCycles& cycles) {
  std::string text;
  for (const MathKind kind : kMathKinds) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", name_of(kind), cycles[kind]);
  }
  return '{' + text + '}';
}

std::string text_of(const Topology::Pe& pe) {
  std::string text = fmt::format(
      "pe:\n"
      "  cpu: {{issue: {}}}\n"
      "  scheduler: {{dispatch: {}}}\n"
      "  dma: {{setup: {}}}\n"
      "  mmu: {{latency: {}, page: {} B}}\n"
      "  math: {{lanes: {}, clock: {}, cycles: {}}}\n",
      text_of(pe.cpu_issue), text_of(pe.scheduler_dispatch), text_of(pe.dma_setup),
      text_of(pe.mmu_latency), pe.mmu_page, pe.math_lanes, text_of(pe.math_clock),
      text_of(pe.math_cycles));
  text += fmt::format("  gemm: {{rows: {}, columns: {}, dataflow: {}, clock: {}}}\n", pe.gemm.rows,
                      pe.gemm.columns, name_of(pe.gemm.dataflow), text_of(pe.gemm.clock));
  text += fmt::format("  tcm: {{capacity: {} B, bandwidth: {}, latency: {}}}\n", pe.tcm.capacity,
                      text_of(pe.tcm.bandwidth), text_of(pe.tcm.latency));
  return text + fmt::format("  ipcq: {{latency: {}}}\n", text_of(pe.ipcq_latency));
}

std::string text_of(const Topology::Communication& communication) {
  return fmt::format("communication: {{packet: {} B, scratch: {} B}}\n", communication.packet,
                     communication.scratch);
}

std::string text_of(const Topology::Launch& launch) {
  return fmt::format("launch: {{blocking: {}}}\n", launch.blocking);
}

std::string text_of(const Topology& topology) {
  return "kernbench_topology: 1\n" + text_of(topology.system) + text_of(topology.sip) +
         text_of(topology.cube) + text_of(topology.pe) + text_of(topology.communication) +
         text_of(topology.launch);
}

void check(std::string_view input) {
  const Topology topology = Topology::parse(input, "t.yaml");
  try {
    topology.check();
    if (Topology::parse(text_of(topology), "t.yaml") == topology) return;
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}", error.what()));
  }
  throw Finding("printed and read again it is another topology:\n" + text_of(topology));
}

}  // namespace

Parser parser() {
  return {.name = "topology",
          .check = check,
          .shipped = {"topologies"},
          .words =
              "unlimited B KB MB GB TB KiB MiB GiB TiB B/s kHz Hz ps ns us ms s "
              "input_stationary weight_stationary mesh_2d_no_wrap torus_2d ring_1d null"};
}

}  // namespace kernbench::fuzz::topology_yaml
