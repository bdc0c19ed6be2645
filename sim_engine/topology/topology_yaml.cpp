// The keys of a topology file, in one place.  Every function below is the table of one section.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <filesystem>
#include <vector>

#include "sim_engine/base/error.h"
#include "sim_engine/base/visible_text.h"
#include "sim_engine/config/yaml_reader.h"
#include "sim_engine/topology/shipped_topologies.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/topology/topology_keys.h"
#include "sim_engine/topology/unlike_links.h"

namespace kernbench {

namespace {

constexpr int kMaxSips = 4096;
constexpr int kMaxGridSide = 256;
constexpr int kMaxLinks = 64;
constexpr int kMaxFullMesh = 64;
constexpr std::int64_t kMaxPes = std::int64_t{1} << 20;
constexpr Bytes kTebibyte = Bytes{1} << 40;

constexpr std::array<std::string_view, 4> kCorners = {"NW", "NE", "SW", "SE"};

Bytes read_capacity(YamlMap& memory) {
  return memory.bytes("capacity", 1, kTebibyte);
}

LinkSpec link_in(YamlMap& link) {
  return {.bandwidth = link.bandwidth("bandwidth"), .latency = link.time("latency")};
}

LinkSpec read_link(YamlMap link) {
  return link_in(link);
}

// Grids and rings are connected by construction, so these are the only errors that a topology file
// can make about the graph.
void check_grid(YamlMap& sips, const Topology::System& system) {
  const bool has_depth = system.topology == SipTopology::torus_3d;
  const std::int64_t product = std::int64_t{system.w} * system.h * system.d;
  if (!sips.is_fine({"count", "w", "h"}) || product == system.sip_count) return;
  if (has_depth && !sips.is_fine({"d"})) return;
  sips.fail("KB-Y030", has_depth ? fmt::format("w*h*d = {}*{}*{} = {} but count = {}", system.w,
                                               system.h, system.d, product, system.sip_count)
                                 : fmt::format("w*h = {}*{} = {} but count = {}", system.w,
                                               system.h, product, system.sip_count));
}

Topology::System read_sips(YamlMap sips) {
  Topology::System system;
  system.sip_count = sips.integer("count", 1, kMaxSips);
  system.topology = sips.choice("topology", kSipTopologies);
  const bool in_rows = has_rows(system.topology);
  const bool has_grid = sips.has("w") || sips.has("h");
  if (has_grid || in_rows) {
    system.w = sips.integer("w", 1, kMaxGridSide);
    system.h = sips.integer("h", 1, kMaxGridSide);
    if (system.topology == SipTopology::torus_3d) system.d = sips.integer("d", 1, kMaxGridSide);
    check_grid(sips, system);
  }
  if (!in_rows) {
    system.w = system.sip_count;
    system.h = 1;
  }
  return system;
}

LinkSpec read_sip_link(YamlMap link, Topology::System& system) {
  if (link.has("count")) system.links_per_pair = link.integer("count", 1, kMaxLinks);
  return {.bandwidth = link.bandwidth("bandwidth"), .latency = link.time("latency")};
}

// Each entry has a name of links and what they are.  A null system has errors of its own.
std::vector<UnlikeLinks> read_unlike_links(YamlMap given, const Topology::System* system) {
  std::vector<UnlikeLinks> all;
  for (const YamlNode* node : given.entries()) {
    const LinkSpec spec = read_link(given.map(*node));
    auto links = parse_unlike_links(node->key);
    if (!links) {
      given.fail(node->key, "KB-Y020", "names no links; z, sip0-sip1 or sip3 would");
      continue;
    }
    const std::string why = system == nullptr ? "" : describe_missing_links(*system, *links);
    if (!why.empty()) given.fail(node->key, "KB-Y038", why);
    all.emplace_back(*links).link = spec;
  }
  return all;
}

SwitchSpec read_switch(YamlMap given) {
  SwitchSpec result;
  result.core.latency = given.time("latency");
  if (given.has("bandwidth")) result.core.bandwidth = given.bandwidth("bandwidth");
  if (given.has("sums")) result.sums = read_link(given.map("sums"));
  return result;
}

// Nodes stand in a row: a column of the grid has one SIP of each.
void read_nodes(YamlMap nodes, Topology::System& system) {
  NodesSpec& spec = system.nodes;
  spec.count = nodes.integer("count", 1, kMaxSips);
  spec.link = read_link(nodes.map("link"));
  const bool divides = system.sip_count % spec.count == 0;
  if (nodes.is_fine({"count"}) && !divides) {
    nodes.fail("count", "KB-Y030", fmt::format("{} SIPs are no equal nodes", system.sip_count));
  }
  system.w = divides ? system.sip_count / spec.count : system.sip_count;
  system.h = divides ? spec.count : 1;
  if (nodes.has("sips_per_link")) {
    spec.sips_per_link = nodes.integer("sips_per_link", 1, kMaxSips);
    if (nodes.is_fine({"count", "sips_per_link"}) && system.w % spec.sips_per_link != 0) {
      nodes.fail("sips_per_link", "KB-Y030",
                 fmt::format("does not divide the {} SIPs of a node", system.w));
    }
  }
  if (!joins_all(system.topology)) {
    nodes.fail("KB-Y038", fmt::format("SIPs of a node are joined as 'topology: switch' or "
                                      "'full_mesh' (here: {})",
                                      name_of(system.topology)));
  }
}

Topology::System read_system(YamlMap system) {
  Topology::System result = read_sips(system.map("sips"));
  if (system.has("nodes")) read_nodes(system.map("nodes"), result);
  result.sip_link = read_sip_link(system.map("sip_link"), result);
  if (system.has("sip_links")) {
    const bool is_known = system.is_fine({"sips"});
    result.unlike_links = read_unlike_links(system.map("sip_links"), is_known ? &result : nullptr);
  }
  YamlMap host_link = system.map("host_link");
  result.host_link = link_in(host_link);
  if (host_link.has("issue")) result.host_issue = host_link.time("issue");
  if (result.topology == SipTopology::switched) {
    result.network_switch = read_switch(system.map("switch"));
    if (result.network_switch.sums && result.nodes.count > 1) {
      system.fail("switch", "KB-Y038", "'sums' have no meaning beside 'nodes': no switch adds up");
    }
  } else if (system.has("switch")) {
    system.fail("switch", "KB-Y038",
                fmt::format("has no meaning without 'topology: switch' (here: {})",
                            name_of(result.topology)));
  }
  return result;
}

Topology::Sip read_sip(YamlMap sip) {
  YamlMap mesh = sip.map("cube_mesh");
  YamlMap io_chiplet = sip.map("io_chiplet");
  LinkSpec io_hop;
  if (io_chiplet.has("latency")) io_hop.latency = io_chiplet.time("latency");
  if (io_chiplet.has("bandwidth")) io_hop.bandwidth = io_chiplet.bandwidth("bandwidth");
  return {.cubes_w = mesh.integer("w", 1, kMaxGridSide),
          .cubes_h = mesh.integer("h", 1, kMaxGridSide),
          .ucie = read_link(sip.map("ucie")),
          .io_edge = io_chiplet.choice("edge", kEdges),
          .io_cpu_dispatch = io_chiplet.time("dispatch"),
          .io_hop = io_hop};
}

SramSpec read_sram(YamlMap sram) {
  return {.capacity = read_capacity(sram),
          .bandwidth = sram.bandwidth("bandwidth"),
          .latency = sram.time("latency")};
}

HbmSpec read_hbm(YamlMap hbm) {
  HbmSpec result{.channels = hbm.integer("channels", 1, 1024),
                 .bandwidth = hbm.bandwidth("bandwidth"),
                 .latency = hbm.time("latency"),
                 .capacity = read_capacity(hbm)};
  if (hbm.has("slices")) result.slices = hbm.integer("slices", 1, 1024);
  if (hbm.has("efficiency")) result.efficiency = hbm.share("efficiency");
  if (hbm.has("turn_around")) result.turn_around = hbm.time("turn_around");
  return result;
}

// A slice has a whole number of channels, and a whole number of PEs.
void check_channels(YamlMap& cube, const HbmSpec& hbm, int pes) {
  if (!cube.is_fine({"pe_layout", "hbm"})) return;
  if (hbm.slices > 0) {
    if (hbm.channels % hbm.slices == 0 && pes % hbm.slices == 0) return;
    cube.fail("hbm", "KB-Y035",
              fmt::format("{} slices of {} channels for {} PEs; the slices must divide both",
                          hbm.slices, hbm.channels, pes));
  } else if (hbm.channels % pes != 0 && pes % hbm.channels != 0) {
    cube.fail("hbm", "KB-Y035",
              fmt::format("{} channels and {} PEs; one must divide the other", hbm.channels, pes));
  }
}

void read_pe_layout(YamlMap layout, Topology::Cube& cube) {
  cube.corners = layout.choices("corners", kCorners);
  cube.pe_per_corner = layout.integer("pe_per_corner", 1, 16);
}

Topology::Cube read_cube(YamlMap cube) {
  Topology::Cube result;
  read_pe_layout(cube.map("pe_layout"), result);
  YamlMap noc = cube.map("noc");
  result.noc = link_in(noc);
  if (noc.has("corner")) result.corner = read_link(noc.map("corner"));
  result.m_cpu_dispatch = cube.map("m_cpu").time("dispatch");
  result.sram = read_sram(cube.map("sram"));
  result.hbm = read_hbm(cube.map("hbm"));
  check_channels(cube, result.hbm, static_cast<int>(result.corners.size()) * result.pe_per_corner);
  return result;
}

Bytes read_page(YamlMap& mmu) {
  const Bytes page = mmu.bytes("page", 1, kTebibyte);
  if (mmu.is_fine({"page"}) && !std::has_single_bit(static_cast<std::uint64_t>(page))) {
    mmu.fail("page", "KB-Y020", "must be a power of two, such as 2 MiB");
  }
  return page;
}

MathCycles read_math_cycles(YamlMap cycles) {
  MathCycles result;
  for (const MathKind kind : kMathKinds) result[kind] = cycles.integer(name_of(kind), 1, 1024);
  return result;
}

GemmSpec read_gemm(YamlMap gemm) {
  GemmSpec result{.rows = gemm.integer("rows", 1, 4096),
                  .columns = gemm.integer("columns", 1, 4096),
                  .dataflow = gemm.choice("dataflow", kDataflows),
                  .clock = gemm.frequency("clock")};
  if (gemm.has("overlap")) result.overlap = gemm.boolean("overlap");
  return result;
}

TcmSpec read_tcm(YamlMap tcm) {
  TcmSpec result{.capacity = read_capacity(tcm),
                 .bandwidth = tcm.bandwidth("bandwidth"),
                 .latency = tcm.time("latency")};
  if (tcm.has("compute_bandwidth")) result.compute_bandwidth = tcm.bandwidth("compute_bandwidth");
  return result;
}

Topology::Pe read_pe(YamlMap pe) {
  YamlMap mmu = pe.map("mmu");
  YamlMap math = pe.map("math");
  return {.cpu_issue = pe.map("cpu").time("issue"),
          .scheduler_dispatch = pe.map("scheduler").time("dispatch"),
          .dma_setup = pe.map("dma").time("setup"),
          .mmu_latency = mmu.time("latency"),
          .mmu_page = read_page(mmu),
          .math_lanes = math.integer("lanes", 1, 65536),
          .math_f16_per_lane = math.has("f16_per_lane") ? math.integer("f16_per_lane", 1, 4) : 1,
          .math_clock = math.frequency("clock"),
          .math_cycles = read_math_cycles(math.map("cycles")),
          .gemm = read_gemm(pe.map("gemm")),
          .tcm = read_tcm(pe.map("tcm")),
          .ipcq_latency = pe.map("ipcq").time("latency")};
}

// The section may be left out: then collectives have what keeps them from starving beside kernels.
Topology::Communication read_communication(YamlMap& file, const TcmSpec& tcm) {
  constexpr Bytes kPacket = 1 << 10;
  constexpr Bytes kShareOfTcm = 3;
  Topology::Communication result{.packet = kPacket, .scratch = tcm.capacity / kShareOfTcm};
  if (!file.has("communication")) return result;
  YamlMap own = file.map("communication");
  result.packet = own.bytes("packet", 0, kTebibyte);
  result.scratch = own.bytes("scratch", 0, kTebibyte);
  if (result.scratch >= tcm.capacity && result.scratch > 0 && file.is_fine({"pe"})) {
    own.fail("scratch", "KB-Y049",
             fmt::format("{} B of a TCM of {} B leave nothing to users' kernels", result.scratch,
                         tcm.capacity));
  }
  return result;
}

Topology::Launch read_launch(YamlMap& file) {
  if (!file.has("launch")) return {};
  return {.blocking = file.map("launch").boolean("blocking")};
}

// A unit whose energy is left out is not counted.
EnergySpec read_energy(YamlMap& file) {
  EnergySpec result;
  if (!file.has("energy")) return result;
  YamlMap energy = file.map("energy");
  for (const EnergyUnit unit : kEnergyUnits) {
    const std::string_view key = name_of(unit);
    if (!energy.has(key)) continue;
    result[unit] =
        counts_operations(unit) ? energy.energy_of_operation(key) : energy.energy_of_byte(key);
  }
  return result;
}

std::vector<Fault> read_faults(YamlMap& file) {
  std::vector<Fault> faults;
  if (!file.has("faults")) return faults;
  for (const YamlNode* node : file.texts("faults", "[rank=3 start=+50us]")) {
    ParsedFault parsed = parse_fault(node->text);
    if (parsed.wrong.empty())
      faults.push_back(std::move(parsed.fault));
    else
      file.fail_at(*node, "KB-Y050", parsed.wrong);
  }
  return faults;
}

// Links of a full mesh grow with the square of the SIPs.
void check_full_mesh(YamlMap& file, const Topology::System& system) {
  if (system.topology != SipTopology::full_mesh || system.sip_count <= kMaxFullMesh) return;
  file.fail("system", "KB-Y039",
            fmt::format("a full_mesh joins at most {} SIPs, not {}; a switch joins more",
                        kMaxFullMesh, system.sip_count));
}

// Wrong numbers were read as the minimum, so errors elsewhere cannot cause this one.
void check_size(YamlMap& file, const Topology& topology) {
  const std::int64_t pes =
      std::int64_t{topology.system.sip_count} * topology.cube_count() * topology.pe_count();
  if (pes <= kMaxPes) return;
  file.fail(
      "system", "KB-Y036",
      fmt::format("{} SIPs * {} cubes * {} PEs = {} PEs, more than {}", topology.system.sip_count,
                  topology.cube_count(), topology.pe_count(), pes, kMaxPes));
}

Topology read_topology(YamlMap file, std::string name) {
  file.integer("kernbench_topology", 1, 1);  // the version of the format
  Topology topology{.name = std::move(name),
                    .system = read_system(file.map("system")),
                    .sip = read_sip(file.map("sip")),
                    .cube = read_cube(file.map("cube")),
                    .pe = read_pe(file.map("pe")),
                    .communication = {},
                    .launch = read_launch(file),
                    .energy = read_energy(file),
                    .faults = read_faults(file)};
  topology.communication = read_communication(file, topology.pe.tcm);
  check_size(file, topology);
  check_full_mesh(file, topology.system);
  return topology;
}

Topology read(const YamlDocument& document, const std::filesystem::path& path,
              std::vector<YamlKey>* keys = nullptr) {
  YamlReader reader(document, keys);
  Topology topology = read_topology(reader.map(document.root()), path.stem().string());
  reader.finish();
  return topology;
}

bool looks_like_name(const std::filesystem::path& path) {
  return !path.empty() && !path.has_parent_path() && !path.has_extension();
}

std::vector<std::string_view> shipped_names() {
  std::vector<std::string_view> names;
  for (const ShippedTopology& topology : shipped_topologies()) names.push_back(topology.name);
  return names;
}

}  // namespace

Topology Topology::load(const std::string& path) {
  if (const ShippedTopology* shipped = find_shipped_topology(path)) {
    return parse(shipped->text, fmt::format("{}.yaml", shipped->name));
  }
  std::error_code ignored;
  if (looks_like_name(path) && !std::filesystem::exists(path, ignored)) {
    throw ConfigError("KB-I001",
                      "cannot read '{}': there is no such file, and the shipped topologies are {}",
                      visible(path), fmt::join(shipped_names(), ", "));
  }
  return read(YamlDocument::load(path), path);
}

Topology Topology::parse(std::string_view text, const std::string& name) {
  return read(YamlDocument::parse(text, name), name);
}

Topology changed_topology(std::string_view text, const std::string& name,
                          std::span<const YamlChange> changes) {
  YamlDocument document = YamlDocument::parse(text, name);
  for (const YamlChange& change : changes) document.change(change);
  return read(document, name);
}

std::vector<YamlKey> topology_keys(std::string_view text, const std::string& name) {
  std::vector<YamlKey> keys;
  read(YamlDocument::parse(text, name), name, &keys);
  return keys;
}

}  // namespace kernbench
