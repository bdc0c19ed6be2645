#include "sim_engine/topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "test/sim_engine/topology/topology_text.h"
#include "test/support/error_text.h"

namespace kernbench::test::topology_test {

using Catch::EndsWith;

TEST_CASE("what a merge key leaves open is not computed with", "[topology][errors]") {
  std::string text = complete_topology();
  const std::size_t begin = text.find("pe_layout: {");
  REQUIRE(begin != std::string::npos);
  text.replace(begin, text.find('}', begin) + 1 - begin, "pe_layout: {<<: {}, pe_per_corner: 1}");
  CHECK_THAT(topology_error_of(text), Catch::Contains("[KB-Y013] ") && !Catch::Contains("\n"));
}

TEST_CASE("every value of a topology file arrives in its place", "[topology]") {
  const Topology topology = Topology::parse(R"(kernbench_topology: 1
system:
  sips: {count: 6, w: 3, h: 2, topology: mesh_2d_no_wrap}
  sip_link:  {bandwidth: 1 GB/s, latency: 1 ns}
  host_link: {bandwidth: 2 GB/s, latency: 2 ns, issue: 40 ns}
sip:
  cube_mesh: {w: 5, h: 4}
  ucie: {bandwidth: 3 GB/s, latency: 3 ns}
  io_chiplet: {edge: south, dispatch: 4 ns}
cube:
  pe_layout: {corners: [SE, NW], pe_per_corner: 4}
  noc: {bandwidth: 5 GB/s, latency: 5 ns}
  m_cpu: {dispatch: 6 ns}
  sram: {capacity: 7 MiB, bandwidth: 7 GB/s, latency: 7 ns}
  hbm: {channels: 16, bandwidth: 51.2 GB/s, latency: 8 ns, capacity: 8 GiB}
pe:
  cpu: {issue: 9 ns}
  scheduler: {dispatch: 10 ns}
  dma: {setup: 11 ns}
  mmu: {latency: 12 ns, page: 64 KiB}
  math:
    lanes: 13
    clock: 1.3 GHz
    cycles: {add: 21, mul: 22, fma: 23, div: 24, compare: 25, move: 26, exp: 27, log: 28, sqrt: 29,
             rsqrt: 30, sigmoid: 31}
  gemm: {rows: 14, columns: 15, dataflow: weight_stationary, clock: unlimited}
  tcm: {capacity: 16 KiB, bandwidth: unlimited, latency: 1.6 ns}
  ipcq: {latency: 0 ns}
)",
                                            "some/where/my.topology.yaml");
  CHECK(topology.name == "my.topology");
  const auto ns = [](std::int64_t count) { return Time{count * 1000}; };
  const auto gb = [](std::int64_t count) { return Bandwidth{count * 1'000'000'000}; };
  CHECK(topology.system.sip_count == 6);
  CHECK(topology.system.w == 3);
  CHECK(topology.system.h == 2);
  CHECK(topology.system.topology == SipTopology::mesh_2d_no_wrap);
  CHECK(topology.system.sip_link.bandwidth == gb(1));
  CHECK(topology.system.sip_link.latency == ns(1));
  CHECK(topology.system.host_link.bandwidth == gb(2));
  CHECK(topology.system.host_link.latency == ns(2));
  CHECK(topology.system.host_issue == ns(40));
  CHECK(topology.sip.cubes_w == 5);
  CHECK(topology.sip.cubes_h == 4);
  CHECK(topology.sip.ucie.bandwidth == gb(3));
  CHECK(topology.sip.ucie.latency == ns(3));
  CHECK(topology.sip.io_edge == Edge::south);
  CHECK(topology.sip.io_cpu_dispatch == ns(4));
  CHECK(topology.cube.corners == std::vector<std::string>{"SE", "NW"});
  CHECK(topology.cube.pe_per_corner == 4);
  CHECK(topology.cube.noc.bandwidth == gb(5));
  CHECK(topology.cube.noc.latency == ns(5));
  CHECK(topology.cube.m_cpu_dispatch == ns(6));
  CHECK(topology.cube.sram.capacity == Bytes{7} << 20);
  CHECK(topology.cube.sram.bandwidth == gb(7));
  CHECK(topology.cube.sram.latency == ns(7));
  CHECK(topology.cube.hbm.channels == 16);
  CHECK(topology.cube.hbm.bandwidth.per_second == 51'200'000'000);
  CHECK(topology.cube.hbm.latency == ns(8));
  CHECK(topology.cube.hbm.capacity == Bytes{8} << 30);
  CHECK(topology.pe.cpu_issue == ns(9));
  CHECK(topology.pe.scheduler_dispatch == ns(10));
  CHECK(topology.pe.dma_setup == ns(11));
  CHECK(topology.pe.mmu_latency == ns(12));
  CHECK(topology.pe.mmu_page == 65536);
  CHECK(topology.pe.math_lanes == 13);
  CHECK(topology.pe.math_clock.per_second == 1'300'000'000);
  int cycles = 20;
  for (const MathKind kind : kMathKinds) CHECK(topology.pe.math_cycles[kind] == ++cycles);
  CHECK(cycles == 31);
  CHECK(topology.pe.gemm.rows == 14);
  CHECK(topology.pe.gemm.columns == 15);
  CHECK(topology.pe.gemm.dataflow == Dataflow::weight_stationary);
  CHECK(topology.pe.gemm.clock.is_unlimited());
  CHECK(topology.pe.tcm.capacity == 16384);
  CHECK(topology.pe.tcm.bandwidth.is_unlimited());
  CHECK(topology.pe.tcm.latency == Time{1600});
  CHECK(topology.pe.ipcq_latency == Time{0});
  CHECK(topology.cube_count() == 20);
  CHECK(topology.pe_count() == 8);
}

TEST_CASE("every shipped topology loads and is what its name says", "[topology]") {
  struct Shipped {
    std::string name;
    SipTopology topology;
    int sips, w, h, cubes, pes;
  };
  const std::vector<Shipped> shipped = {
      {"a100_32_4nodes", SipTopology::switched, 32, 8, 4, 1, 4},
      {"a100_8", SipTopology::switched, 8, 8, 1, 1, 4},
      {"corners", SipTopology::ring_1d, 2, 2, 1, 16, 8},
      {"default", SipTopology::ring_1d, 2, 2, 1, 16, 8},
      {"h100_128_16nodes", SipTopology::switched, 128, 8, 16, 1, 4},
      {"h100_8", SipTopology::switched, 8, 8, 1, 1, 4},
      {"mesh_2d_no_wrap_2x3", SipTopology::mesh_2d_no_wrap, 6, 2, 3, 16, 8},
      {"original_6sip", SipTopology::torus_2d, 6, 2, 3, 16, 1},
      {"ring_1d_6", SipTopology::ring_1d, 6, 6, 1, 16, 8},
      {"scale_1024", SipTopology::torus_2d, 1024, 32, 32, 1, 4},
      {"scale_64", SipTopology::torus_2d, 64, 8, 8, 4, 8},
      {"tiny", SipTopology::ring_1d, 2, 2, 1, 2, 1},
      {"torus_2d_2x3", SipTopology::torus_2d, 6, 2, 3, 16, 8},
      {"torus_2d_3x2", SipTopology::torus_2d, 6, 3, 2, 16, 8},
      {"tt_blackhole_2_line", SipTopology::mesh_2d_no_wrap, 2, 2, 1, 1, 4},
      {"tt_blackhole_4_line", SipTopology::mesh_2d_no_wrap, 4, 4, 1, 1, 4},
      {"tt_blackhole_4_ring", SipTopology::ring_1d, 4, 4, 1, 1, 4},
      {"tt_blackhole_8_line", SipTopology::mesh_2d_no_wrap, 8, 8, 1, 1, 4},
      {"tt_blackhole_8_ring", SipTopology::ring_1d, 8, 8, 1, 1, 4},
      {"tt_wormhole_2_line", SipTopology::mesh_2d_no_wrap, 2, 2, 1, 1, 4},
      {"tt_wormhole_4_line", SipTopology::mesh_2d_no_wrap, 4, 4, 1, 1, 4},
      {"tt_wormhole_4_ring", SipTopology::ring_1d, 4, 4, 1, 1, 4},
      {"tt_wormhole_8_line", SipTopology::mesh_2d_no_wrap, 8, 8, 1, 1, 4},
      {"tt_wormhole_8_ring", SipTopology::ring_1d, 8, 8, 1, 1, 4},
      {"zero_overhead", SipTopology::ring_1d, 4, 4, 1, 1, 1}};
  for (const Shipped& expected : shipped) {
    INFO(expected.name);
    const Topology topology = Topology::load(topology_folder() / (expected.name + ".yaml"));
    CHECK(topology.name == expected.name);
    CHECK(topology.system.topology == expected.topology);
    CHECK(topology.system.sip_count == expected.sips);
    CHECK(topology.system.w == expected.w);
    CHECK(topology.system.h == expected.h);
    CHECK(topology.cube_count() == expected.cubes);
    CHECK(topology.pe_count() == expected.pes);
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(topology_folder())) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().stem().string());
  }
  std::ranges::sort(files);
  CHECK(std::ranges::equal(files, shipped, {}, {}, &Shipped::name));  // none is untested
}

TEST_CASE("w*h must be the number of SIPs", "[topology]") {
  for (const std::string topology : {"torus_2d", "mesh_2d_no_wrap", "ring_1d"}) {
    for (int w = 1; w <= 13; ++w) {
      for (int h = 1; h <= 13; ++h) {
        std::string text = complete_topology();
        const std::string sips = "{count: 6, w: 3, h: 2, topology: torus_2d}";
        text.replace(text.find(sips), sips.size(),
                     fmt::format("{{count: 12, w: {}, h: {}, topology: {}}}", w, h, topology));
        const std::string error = topology_error_of(text);
        if (w * h == 12) {
          CHECK(error == "no error");
        } else {
          CHECK_THAT(error, Says("KB-Y030", "6:9", fmt::format("{}*{} = {}", w, h, w * h), "12"));
        }
      }
    }
  }
}

TEST_CASE("a ring needs no w and h, a grid needs both", "[topology]") {
  const auto with_sips = [](const std::string& sips) {
    std::string text = complete_topology();
    const std::string old = "{count: 6, w: 3, h: 2, topology: torus_2d}";
    return text.replace(text.find(old), old.size(), sips);
  };
  const Topology ring =
      Topology::parse(with_sips("{count: 6, w: 3, h: 2, topology: ring_1d}"), "t");
  CHECK(ring.system.w == 6);  // a ring has no rows, however it is written
  CHECK(ring.system.h == 1);
  CHECK(topology_error_of(with_sips("{count: 6, topology: ring_1d}")) == "no error");
  CHECK_THAT(topology_error_of(with_sips("{count: 6, w: 6, topology: ring_1d}")),
             Says("KB-Y016", "6:3", "'h'", "system.sips", "h: 4"));
  CHECK_THAT(topology_error_of(with_sips("{count: 6, topology: torus_2d}")),
             Says("KB-Y016", "6:3", "'w' in system.sips", "'h' in system.sips", "h: 4"));
  CHECK_THAT(topology_error_of(with_sips("{count: 6, topology: tours_2d}")),
             Says("KB-Y020", "6:30", "system.sips.topology", "'tours_2d'", "'torus_2d'"));
}

TEST_CASE("rules between values", "[topology]") {
  CHECK(topology_error_of(with("cube.hbm.channels", "3")) == "no error");
  CHECK_THAT(topology_error_of(with("cube.hbm.slices", "2", with("cube.hbm.channels", "3"))),
             Says("KB-Y035", "cube.hbm", "2 slices of 3 channels for 8 PEs"));
  CHECK_THAT(topology_error_of(with("cube.hbm.slices", "16", with("cube.hbm.channels", "16"))),
             Says("KB-Y035", "16 slices of 16 channels for 8 PEs"));
  std::string own = complete_topology();
  own.erase(own.find("slices: 1, "), std::string_view("slices: 1, ").size());
  CHECK_THAT(topology_error_of(with("cube.hbm.channels", "12", own)),
             Says("KB-Y035", "18:8", "cube.hbm", "12 channels", "8 PEs"));
  CHECK(topology_error_of(with("cube.hbm.channels", "4", own)) == "no error");
  CHECK(topology_error_of(with("cube.hbm.channels", "1", own)) == "no error");
  CHECK(topology_error_of(with("cube.hbm.channels", "24", own)) == "no error");
  CHECK_THAT(topology_error_of(with("communication.scratch", "2 MiB")),
             Says("KB-Y049", "communication.scratch", "2097152 B of a TCM of 2097152 B"));
  CHECK_THAT(error_at("pe.mmu.page", "3 MiB"), Says("KB-Y020", "pe.mmu.page", "2 MiB"));
  CHECK_THAT(error_at("cube.pe_layout.corners[1]", "NW"), Says("KB-Y020", "corners[1]", "'NW'"));
  CHECK_THAT(error_at("cube.pe_layout.corners[1]", "SEE"),
             Says("KB-Y020", "corners[1]", "'SEE'", "NW, NE, SW, SE", "'SE'"));
  CHECK_THAT(error_at("sip.io_chiplet.edge", "left"),
             Says("KB-Y020", "'left'", "north, east, south, west", "'west'"));
  // 6 * 256 * 85 * 8 PEs and 6 * 256 * 86 * 8: around 2^20.
  CHECK(topology_error_of(with("sip.cube_mesh.w", "256", with("sip.cube_mesh.h", "85"))) ==
        "no error");
  CHECK_THAT(topology_error_of(with("sip.cube_mesh.w", "256", with("sip.cube_mesh.h", "86"))),
             Says("KB-Y036", "6:3", "6 SIPs * 22016 cubes * 8 PEs", "1056768", "1048576"));
}

TEST_CASE("all errors of a file come at once, in file order", "[topology]") {
  const std::string error = topology_error_of(R"(kernbench_topology: 2
system:
  sips: {count: 12, w: 4, h: 4, topology: torus_2d}
  sip_link:  {banwidth: 64 GB/s, latency: 300 ns}
  host_link: {bandwidth: 64, latency: 500 ns}
sip:
  cube_mesh: {w: 4, h: 4, w: 4}
  ucie: &ucie {bandwidth: 512 GB/s, latency: 16 ns}
  io_chiplet: {edge: west}
cube:
  pe_layout: {corners: [NW, NE, SW], pe_per_corner: 2}
  noc: *ucie
  m_cpu: {dispatch: 10ns}
  sram: {capacity: 16 MiB, bandwidth: 1024 GB/s, latency: 20 ns}
  hbm: {channels: 16, bandwidth: 51.2 GB/s, latency: 120 ns, capacity: 24 GiB}
pe:
  cpu: {issue: 2 ns}
  scheduler: 2 ns
  dma: {setup: 10 ns}
  mmu: {latency: 4 ns, page: 3 MiB}
  math: {lanes: -1, clock: 1.5 GHz, cycles: {add: 1, mul: 1, fma: 1, div: 8, compare: 1, mov: 1,
    exp: 4, log: 4, sqrt: 0, rsqrt: 4, sigmoid: 13}}
  gemm: {rows: "32", columns: 32, dataflow: output_stationary, clock: 1.5 GHz}
  tcm: {capacity: 2 MiB, bandwidth: 1024 GB/s, latency: 0.0001 ns}
colour: red
)");
  std::istringstream lines(error);
  std::vector<std::string> found;  // "line:column code"
  for (std::string line; std::getline(lines, line);) {
    found.push_back(line.substr(7, line.find("] ") - 7));
  }
  CHECK(found == std::vector<std::string>{
                     "1:21: [KB-Y020", "3:9: [KB-Y030", "4:15: [KB-Y010", "5:26: [KB-Y011",
                     "7:27: [KB-Y012", "8:9: [KB-Y013", "9:3: [KB-Y016", "12:8: [KB-Y013",
                     "13:21: [KB-Y011", "15:8: [KB-Y035", "16:1: [KB-Y016", "18:14: [KB-Y011",
                     "20:30: [KB-Y020", "21:17: [KB-Y020", "21:90: [KB-Y010", "22:27: [KB-Y020",
                     "23:16: [KB-Y011", "24:57: [KB-Y020", "25:1: [KB-Y010"});
}

TEST_CASE("without a section `communication` collectives do not starve", "[topology]") {
  const std::string& text = complete_topology();
  CHECK(Topology::parse(text, "t.yaml").communication ==
        Topology::Communication{.packet = 1024, .scratch = 672 << 10});
  const std::string without = text.substr(0, text.find("communication:"));
  const Topology topology = Topology::parse(without, "t.yaml");
  CHECK(topology.communication ==
        Topology::Communication{.packet = 1024, .scratch = topology.pe.tcm.capacity / 3});
  const std::string off = without + "communication: {packet: 0 B, scratch: 0 B}\n";
  CHECK(Topology::parse(off, "t.yaml").communication == Topology::Communication{});
}

TEST_CASE("what a file leaves out has no limit, or is as in older files", "[topology]") {
  std::string text = complete_topology();
  Topology topology = Topology::parse(text, "t.yaml");
  CHECK(topology.cube.hbm.efficiency == Share{900'000});
  CHECK(topology.cube.hbm.slices == 1);
  CHECK(topology.cube.hbm.turn_around == Time{24'000});
  CHECK(topology.cube.corner == LinkSpec{Bandwidth{256'000'000'000}, Time{2'000}});
  CHECK(topology.pe.tcm.compute_bandwidth == Bandwidth{2'304'000'000'000});
  CHECK(topology.pe.gemm.overlap);
  CHECK(topology.pe.gemm.f8_per_cell == 2);
  CHECK(topology.pe.math_f16_per_lane == 2);
  const auto replace = [&](std::string_view old, std::string_view by) {
    REQUIRE(text.find(old) != text.npos);
    text.replace(text.find(old), old.size(), by);
  };
  replace("blocking: false", "blocking: true");
  CHECK(Topology::parse(text, "t.yaml").launch.blocking);
  replace("launch: {blocking: true}", "");
  replace(" slices: 1,", "");
  replace(" efficiency: 90 %, turn_around: 24 ns,", "");
  replace(", corner: {bandwidth: 256 GB/s, latency: 2 ns}", "");
  replace(", compute_bandwidth: 2304 GB/s", "");
  replace(", overlap: true, f8_per_cell: 2", "");
  replace("    f16_per_lane: 2\n", "");
  topology = Topology::parse(text, "t.yaml");
  CHECK(topology.cube.hbm.efficiency.is_whole());
  CHECK(topology.cube.hbm.slices == 0);
  CHECK(topology.cube.hbm.turn_around == Time{0});
  CHECK(topology.cube.corner == LinkSpec{});
  CHECK(topology.pe.tcm.compute_bandwidth.is_unlimited());
  CHECK_FALSE(topology.pe.gemm.overlap);
  CHECK(topology.pe.gemm.f8_per_cell == 1);
  CHECK(topology.pe.math_f16_per_lane == 1);
  CHECK_FALSE(topology.launch.blocking);
}

// FLOP per byte of HBM, and four links to HBM, of a SIP; see ADR-0248.
TEST_CASE("machines have the ratios of a part of 2025", "[topology]") {
  const char* name =
      GENERATE("default", "ring_1d_6", "torus_2d_2x3", "torus_2d_3x2", "mesh_2d_no_wrap_2x3");
  const Topology topology = Topology::load(name);
  const GemmSpec& array = topology.pe.gemm;
  const double flops = 2.0 * array.rows * array.columns *
                       static_cast<double>(array.clock.per_second) * topology.pe_count();
  const HbmSpec& hbm = topology.cube.hbm;
  const double bytes = static_cast<double>(hbm.bandwidth.per_second) * hbm.channels;
  CHECK(flops / bytes == Approx(240));
  const double links = 4 * static_cast<double>(topology.system.sip_link.bandwidth.per_second);
  CHECK(links / (bytes * topology.cube_count()) == Approx(0.15625));
}

TEST_CASE("an efficiency is a share of the peak", "[topology][errors]") {
  CHECK_THAT(error_at("cube.hbm.efficiency", "101 %"), Says("KB-Y020", "100 %"));
  CHECK_THAT(error_at("cube.hbm.efficiency", "0 %"), Says("KB-Y020", "0 % not in (0 %, 100 %]"));
  CHECK_THAT(error_at("cube.hbm.efficiency", "0.9"), Says("KB-Y011", "%"));
  CHECK_THAT(error_at("launch.blocking", "1"), Says("KB-Y020", "false, true"));
  Topology topology = Topology::parse(complete_topology(), "t.yaml");
  topology.cube.hbm.efficiency.millionths = 1'000'001;
  CHECK_THAT(error_of<ConfigError>([&] { topology.check(); }),
             Says("KB-Y037", "cube.hbm.efficiency is 1000001 millionths"));
}

TEST_CASE("a missing section is one error with an example of the whole section", "[topology]") {
  CHECK_THAT(topology_error_of("kernbench_topology: 1\n"),
             Says("KB-Y016", "system: {sips: {...}, sip_link: {...}, host_link: {...}}",
                  "sip: {cube_mesh: {...}, io_chiplet: {...}, ucie: {...}}", "'cube'", "'pe'"));
}

TEST_CASE("a shipped topology is loaded by its name", "[topology]") {
  CHECK(Topology::load("default").name == "default");
  CHECK(Topology::load("torus_2d_2x3").system.sip_count == 6);
}

TEST_CASE("a topology that cannot be read says why", "[topology]") {
  const auto error = [](const std::filesystem::path& path) {
    return config_error_of([&] { Topology::load(path); });
  };
  CHECK_THAT(error("defualt"), Says("KB-I001", "'defualt'", "scale_64", "zero_overhead"));
  CHECK_THAT(error("no/such.yaml"), Says("KB-I001", "'no/such.yaml'", "No such file"));
  CHECK_THAT(error("/dev/zero"), Says("KB-I001", "'/dev/zero'", "Not a regular file"));
  CHECK_THAT(error(topology_folder()), EndsWith("': Is a directory"));
}

}  // namespace kernbench::test::topology_test
