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
#include "sim_engine/topology/system_yaml.h"
#include "sim_engine/topology/topology.h"
#include "sim_engine/topology/topology_keys.h"

namespace kernbench {

namespace {

constexpr int kMaxMeshSide = 256;
constexpr std::int64_t kMaxPes = std::int64_t{1} << 20;
constexpr Bytes kTebibyte = Bytes{1} << 40;

constexpr std::array<std::string_view, 4> kCorners = {"NW", "NE", "SW", "SE"};

Bytes read_capacity(YamlMap& memory) {
  return memory.bytes("capacity", 1, kTebibyte);
}

Topology::Sip read_sip(YamlMap sip) {
  YamlMap mesh = sip.map("cube_mesh");
  YamlMap io_chiplet = sip.map("io_chiplet");
  LinkSpec io_hop;
  if (io_chiplet.has("latency")) io_hop.latency = io_chiplet.time("latency");
  if (io_chiplet.has("bandwidth")) io_hop.bandwidth = io_chiplet.bandwidth("bandwidth");
  return {.cubes_w = mesh.integer("w", 1, kMaxMeshSide),
          .cubes_h = mesh.integer("h", 1, kMaxMeshSide),
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
  if (gemm.has("f8_per_cell")) result.f8_per_cell = gemm.integer("f8_per_cell", 1, 4);
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
                    .system = read_system(file),
                    .sip = read_sip(file.map("sip")),
                    .cube = read_cube(file.map("cube")),
                    .pe = read_pe(file.map("pe")),
                    .communication = {},
                    .launch = read_launch(file),
                    .energy = read_energy(file),
                    .faults = read_faults(file)};
  topology.communication = read_communication(file, topology.pe.tcm);
  check_size(file, topology);
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
