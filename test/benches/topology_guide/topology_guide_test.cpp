// The guide "Writing a topology": its files are machines, and the commands print what it shows.

#include <catch2/catch.hpp>

#include "sim_engine/topology/topology.h"
#include "test/benches/program_under_test.h"
#include "test/support/guide.h"

namespace kernbench::test::topology_guide_test {
namespace {

const Guide kGuide = {KERNBENCH_ROOT "/topologies/writing-a-topology.md",
                      KERNBENCH_ROOT "/topologies/writing-a-topology.ko.md",
                      {}};

// Writes the files that a reader of the guide saves, and those that its shell commands make.
void write_files(const TemporaryFolder& folder) {
  for (const GuideFile& file : files_in(kGuide, "yaml")) folder.write(file.name, file.text);
  for (const GuideFile& commands : files_in(kGuide, "sh")) {
    const ProgramResult result =
        run_program({"-c", commands.text}, {.program = "/bin/sh", .folder = folder.path("")});
    CAPTURE(commands.text, result.err);
    CHECK(result.exit_code == 0);
  }
}

TEST_CASE("the machines of the guide to topologies load", "[guide]") {
  const TemporaryFolder folder;
  write_files(folder);
  CHECK(Topology::load(folder.path("box.yaml")).system.topology == SipTopology::switched);
  const Topology torus = Topology::load(folder.path("torus.yaml"));
  CHECK(torus.system.topology == SipTopology::torus_3d);
  CHECK(torus.system.sip_count == 12);
}

TEST_CASE("the Korean guide to topologies shows the same", "[guide]") {
  check_translation(kGuide);
}

TEST_CASE("the commands in the guide to topologies print what it shows", "[guide][exhaustive]") {
  const TemporaryFolder folder;
  write_files(folder);
  check_commands(kGuide, 11, [&](const std::vector<std::string>& words) {
    REQUIRE(words.front() == "kernbench");
    const ProgramResult result =
        run_program({words.begin() + 1, words.end()}, {.folder = folder.path("")});
    return result.out + result.err;
  });
  CHECK(folder.read("box.svg").starts_with("<svg"));
}

}  // namespace
}  // namespace kernbench::test::topology_guide_test
