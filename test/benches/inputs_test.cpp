#include "benches/bench/inputs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "test/benches/program_under_test.h"

namespace kernbench::benches::inputs_test {

namespace fs = std::filesystem;

TEST_CASE("the program carries every shipped topology as it is", "[inputs]") {
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator(KERNBENCH_ROOT "/topologies")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const std::string name = entry.path().stem();
    CAPTURE(name);
    const auto shipped = shipped_topologies();
    const auto found = std::ranges::find(shipped, name, &ShippedTopology::name);
    REQUIRE(found != shipped.end());
    CHECK(found->text == test::read_file(entry.path()));
    CHECK(load_topology(name).name == name);
  }
  CHECK(shipped_topologies().size() == files);
  CHECK(shipped_ccl_config() == test::read_file(KERNBENCH_ROOT "/ccl/ccl.yaml"));
}

TEST_CASE("the shipped ccl.yaml says what holds without one", "[inputs]") {
  const ccl::Config shipped = load_ccl("");
  const ccl::Config built_in;
  CHECK(shipped.algorithm_name() == built_in.algorithm_name());
  CHECK(shipped.n_elem() == built_in.n_elem());
  CHECK(shipped.ipcq().buffer_kind == built_in.ipcq().buffer_kind);
  CHECK(shipped.ipcq().depth == built_in.ipcq().depth);
  CHECK(shipped.ipcq().slot_bytes == built_in.ipcq().slot_bytes);
  CHECK(shipped.eager_bytes() == built_in.eager_bytes());
}

TEST_CASE("a topology is described in a line", "[inputs]") {
  CHECK(describe(load_topology("default")) == "2 SIPs in a ring, 4 x 4 cubes of 8 PEs each");
  CHECK(describe(load_topology("torus_2d_2x3")) ==
        "6 SIPs in a 2 x 3 torus, 4 x 4 cubes of 8 PEs each");
  CHECK(describe(load_topology("mesh_2d_no_wrap_2x3")) ==
        "6 SIPs in a 2 x 3 mesh without wrap-around, 4 x 4 cubes of 8 PEs each");
  CHECK(describe(load_topology("zero_overhead")) == "4 SIPs in a ring, 1 x 1 cube of 1 PE each");
}

TEST_CASE("SIPs of a topology are put in a ring of any length", "[inputs]") {
  const Topology ring = in_ring(load_topology("torus_2d_2x3"), 4);
  CHECK(describe(ring) == "4 SIPs in a ring, 4 x 4 cubes of 8 PEs each");
  CHECK(describe_sip(ring) == "4 x 4 cubes of 8 PEs");
  CHECK_NOTHROW(RuntimeContext(ring));
  CHECK_NOTHROW(RuntimeContext(in_ring(ring, 1)));
  CHECK(with_sips(load_topology("torus_2d_2x3"), 4) == ring);
  CHECK(with_sips(load_topology("torus_2d_2x3"), 6) == load_topology("torus_2d_2x3"));
  const Topology nodes = load_topology("a100_32_4nodes");
  for (const auto& [sips, w, h] :
       {std::tuple{32, 8, 4}, {16, 8, 2}, {8, 8, 1}, {4, 4, 1}, {12, 6, 2}, {13, 1, 13}}) {
    const Topology some = with_sips(nodes, sips);
    CAPTURE(sips);
    CHECK(some.system.w == w);
    CHECK(some.system.h == h);
    CHECK(some.system.nodes.count == h);
    CHECK_NOTHROW(some.check());
  }
  CHECK(with_sips(load_topology("h100_8"), 4).system.topology == SipTopology::switched);
}

TEST_CASE("a path is a path even if a topology has nearly its name", "[inputs][errors]") {
  CHECK_THROWS_AS(load_topology("./default"), ConfigError);
  CHECK_THROWS_AS(load_topology("default.yaml"), ConfigError);
  CHECK_THROWS_AS(load_topology("defolt"), UsageError);
}

TEST_CASE("the first sentence of a file is its summary", "[inputs]") {
  CHECK(first_sentence("# One thing.  Another.\nkey: 1\n") == "One thing.");
  CHECK(first_sentence("# Two\n# lines: v1.5 of it.\n#\n# More.\n") == "Two lines: v1.5 of it.");
  CHECK(first_sentence("# no stop") == "no stop");
  CHECK(first_sentence("key: 1\n").empty());
}

TEST_CASE("sizes are bytes or have a unit", "[inputs]") {
  CHECK(parse_bytes("--bytes", "0") == 0);
  CHECK(parse_bytes("--bytes", "65536") == 65536);
  CHECK(parse_bytes("--bytes", "64KiB") == 65536);
  CHECK(parse_bytes("--bytes", "64Ki") == 65536);
  CHECK(parse_bytes("--bytes", "64 KiB") == 65536);
  CHECK(parse_bytes("--bytes", "1.5MiB") == 1572864);
  CHECK(parse_bytes("--bytes", "2MB") == 2'000'000);
}

}  // namespace kernbench::benches::inputs_test
