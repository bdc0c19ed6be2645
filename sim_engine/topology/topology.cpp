#include "sim_engine/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/topology/unlike_links.h"

namespace kernbench {

std::string_view name_of(SipTopology topology) {
  constexpr std::array<std::string_view, kSipTopologies.size()> kNames = {
      "ring_1d", "torus_2d", "mesh_2d_no_wrap", "torus_3d", "full_mesh", "switch"};
  return name_in(kNames, topology);
}

bool has_rows(SipTopology topology) {
  return topology == SipTopology::torus_2d || topology == SipTopology::mesh_2d_no_wrap ||
         topology == SipTopology::torus_3d;
}

bool joins_all(SipTopology topology) {
  return topology == SipTopology::full_mesh || topology == SipTopology::switched;
}

std::string_view name_of(Edge edge) {
  constexpr std::array<std::string_view, 4> kNames = {"north", "east", "south", "west"};
  return name_in(kNames, edge);
}

std::string_view name_of(Dataflow dataflow) {
  constexpr std::array<std::string_view, 3> kNames = {"output_stationary", "weight_stationary",
                                                      "input_stationary"};
  return name_in(kNames, dataflow);
}

std::string_view name_of(MathKind kind) {
  constexpr std::array<std::string_view, kMathKinds.size()> kNames = {
      "add", "mul", "fma", "div", "compare", "move", "exp", "log", "sqrt", "rsqrt", "sigmoid"};
  return name_in(kNames, kind);
}

std::string_view name_of(EnergyUnit unit) {
  constexpr std::array<std::string_view, kEnergyUnits.size()> kNames = {
      "gemm_f16", "gemm_f32", "math", "tcm", "sram", "hbm", "noc", "ucie", "sip_link", "host_link"};
  return name_in(kNames, unit);
}

namespace {

struct NamedCount {
  std::string_view name;
  std::int64_t value;
};

// Outer to inner.
std::vector<NodeLevel> levels_of(const NodesSpec& nodes) {
  std::vector<NodeLevel> levels = {nodes};
  levels.insert(levels.end(), nodes.inner.begin(), nodes.inner.end());
  return levels;
}

// The numbers that must be at least 1 in every topology.
std::vector<NamedCount> list_counts(const Topology& topology) {
  const auto& [name, system, sip, cube, pe, communication, launch, energy, faults] = topology;
  return {{"system.sips.count", system.sip_count},
          {"system.sips.w", system.w},
          {"system.sips.h", system.h},
          {"system.sips.d", system.d},
          {"system.sip_link.bandwidth", system.sip_link.bandwidth.per_second},
          {"system.sip_link.count", system.links_per_pair},
          {"system.switch.bandwidth", system.network_switch.core.bandwidth.per_second},
          {"system.nodes.count", system.nodes.count},
          {"system.nodes.link.bandwidth", system.nodes.link.bandwidth.per_second},
          {"system.nodes.sips_per_link", system.nodes.sips_per_link},
          {"system.host_link.bandwidth", system.host_link.bandwidth.per_second},
          {"sip.cube_mesh.w", sip.cubes_w},
          {"sip.cube_mesh.h", sip.cubes_h},
          {"sip.ucie.bandwidth", sip.ucie.bandwidth.per_second},
          {"sip.io_chiplet.bandwidth", sip.io_hop.bandwidth.per_second},
          {"cube.pe_layout.corners", std::ssize(cube.corners)},
          {"cube.pe_layout.pe_per_corner", cube.pe_per_corner},
          {"cube.noc.bandwidth", cube.noc.bandwidth.per_second},
          {"cube.noc.corner.bandwidth", cube.corner.bandwidth.per_second},
          {"cube.sram.bandwidth", cube.sram.bandwidth.per_second},
          {"cube.hbm.channels", cube.hbm.channels},
          {"cube.hbm.bandwidth", cube.hbm.bandwidth.per_second},
          {"cube.hbm.efficiency", cube.hbm.efficiency.millionths},
          {"pe.math.lanes", pe.math_lanes},
          {"pe.math.f16_per_lane", pe.math_f16_per_lane},
          {"pe.math.clock", pe.math_clock.per_second},
          {"pe.gemm.rows", pe.gemm.rows},
          {"pe.gemm.columns", pe.gemm.columns},
          {"pe.gemm.f8_per_cell", pe.gemm.f8_per_cell},
          {"pe.gemm.clock", pe.gemm.clock.per_second},
          {"pe.tcm.bandwidth", pe.tcm.bandwidth.per_second},
          {"pe.tcm.compute_bandwidth", pe.tcm.compute_bandwidth.per_second}};
}

[[noreturn]] void refuse(const Topology& topology, std::string_view why) {
  throw ConfigError("KB-Y037", "topology '{}': {}", topology.name, why);
}

// The shape of the SIPs of a node is that of a file.
bool fit_nodes(const Topology::System& system) {
  const std::int64_t count = system.node_count();
  const std::int64_t grid = std::int64_t{system.w} * system.h * system.d;
  if (joins_all(system.topology) ? grid != system.sip_count || system.h != count || system.d != 1
                                 : grid * count != system.sip_count) {
    return false;
  }
  std::int64_t sips = system.sip_count;
  bool has_inner = true;
  for (const NodeLevel& level : levels_of(system.nodes)) {
    sips /= level.count;
    if (sips % level.sips_per_link != 0) return false;
    has_inner = !level.through_inner;
  }
  return has_inner || system.topology == SipTopology::switched;
}

}  // namespace

std::int64_t Topology::System::node_count() const {
  std::int64_t all = 1;
  for (const NodeLevel& level : levels_of(nodes)) all *= level.count;
  return all;
}

void Topology::check() const {
  for (const auto& [key, value] : list_counts(*this)) {
    if (value < 1) refuse(*this, fmt::format("{} is {}; it must be at least 1", key, value));
  }
  for (const NodeLevel& level : system.nodes.inner) {
    if (level.count < 1 || level.sips_per_link < 1 || level.link.bandwidth.per_second < 1) {
      refuse(*this, "system.nodes.nodes has numbers that must be at least 1");
    }
  }
  if (!is_enumerator(system.topology, kSipTopologies.size())) {
    refuse(*this, fmt::format("system.sips.topology is {}; there are: ring_1d, torus_2d, "
                              "mesh_2d_no_wrap, torus_3d, full_mesh, switch",
                              number_of(system.topology)));
  }
  if (!is_enumerator(sip.io_edge, kEdges.size())) {
    refuse(*this, fmt::format("sip.io_chiplet.edge is {}; there are: north, east, south, west",
                              number_of(sip.io_edge)));
  }
  if (!is_enumerator(pe.gemm.dataflow, kDataflows.size())) {
    refuse(*this, fmt::format("pe.gemm.dataflow is {}; there are: output_stationary, "
                              "weight_stationary, input_stationary",
                              number_of(pe.gemm.dataflow)));
  }
  if (cube.hbm.efficiency.millionths > Share::kWhole) {
    refuse(*this, fmt::format("cube.hbm.efficiency is {} millionths; there are {}",
                              cube.hbm.efficiency.millionths, Share::kWhole));
  }
  for (const EnergyUnit unit : kEnergyUnits) {
    if (energy[unit] >= 0) continue;
    refuse(*this,
           fmt::format("energy.{} is {} fJ; it must not be negative", name_of(unit), energy[unit]));
  }
  if (communication.packet < 0 || communication.scratch < 0) {
    refuse(*this, fmt::format("communication: packet is {} B and scratch {} B; they must not be "
                              "negative",
                              communication.packet, communication.scratch));
  }
  const std::int64_t nodes = system.node_count();
  if (nodes > 1) {
    if (!fit_nodes(system)) {
      refuse(*this, fmt::format("system.nodes: {} nodes with w = {}, h = {} and d = {}, and the "
                                "SIPs that share a link, do not fit {} SIPs of topology: {}",
                                nodes, system.w, system.h, system.d, system.sip_count,
                                name_of(system.topology)));
    }
  } else if (system.topology == SipTopology::torus_3d) {
    if (std::int64_t{system.w} * system.h * system.d != system.sip_count) {
      refuse(*this, fmt::format("system.sips: w*h*d = {}*{}*{}, but count = {}", system.w, system.h,
                                system.d, system.sip_count));
    }
  } else if (has_rows(system.topology) &&
             (std::int64_t{system.w} * system.h != system.sip_count || system.d != 1)) {
    refuse(*this, fmt::format("system.sips: w*h = {}*{}, but count = {}", system.w, system.h,
                              system.sip_count));
  }
  for (const UnlikeLinks& links : system.unlike_links) {
    const std::string key = fmt::format("system.sip_links.{}", to_string(links));
    if (links.link.bandwidth.per_second < 1) refuse(*this, key + ".bandwidth must be at least 1");
    const std::string why = describe_missing_links(system, links);
    if (!why.empty()) refuse(*this, fmt::format("{}: {}", key, why));
  }
}

namespace {

// Gives inner levels as many nodes as they have and the nodes allow, and the outermost the rest.
void divide_into_nodes(NodesSpec& nodes, int sips_in_node, int count) {
  if (count == 1) {
    nodes = {};
    return;
  }
  int sips = sips_in_node;
  const auto set_count = [&](NodeLevel& level, int own) {
    level.count = own;
    level.sips_per_link = std::gcd(level.sips_per_link, sips);
    sips *= own;
    count /= own;
  };
  for (auto level = nodes.inner.rbegin(); level != nodes.inner.rend(); ++level) {
    int own = std::min(level->count, count);
    while (count % own != 0) --own;
    set_count(*level, own);
  }
  set_count(nodes, count);
}

}  // namespace

Topology in_ring(Topology topology, int sip_count) {
  topology.system.topology = SipTopology::ring_1d;
  topology.system.sip_count = topology.system.w = sip_count;
  topology.system.h = topology.system.d = 1;
  topology.system.nodes = {};
  topology.system.unlike_links.clear();
  let_parts_be_lacking(topology.faults);
  return topology;
}

Topology with_sips(Topology topology, int sip_count) {
  if (sip_count == topology.system.sip_count) return topology;
  if (!joins_all(topology.system.topology)) return in_ring(std::move(topology), sip_count);
  Topology::System& system = topology.system;
  int in_node = system.node_count() > 1 ? std::min(system.w, sip_count) : sip_count;
  while (sip_count % in_node != 0) --in_node;
  system.sip_count = sip_count;
  system.w = in_node;
  system.h = sip_count / in_node;
  divide_into_nodes(system.nodes, in_node, system.h);
  std::erase_if(system.unlike_links, [&](const UnlikeLinks& links) {
    return !describe_missing_links(system, links).empty();
  });
  let_parts_be_lacking(topology.faults);
  return topology;
}

}  // namespace kernbench
