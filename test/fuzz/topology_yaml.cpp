// Topology::parse(): topology files.

#include <fmt/format.h>

#include "sim_engine/topology/topology.h"
#include "test/fuzz/parser.h"
#include "test/support/topology_yaml_text.h"

namespace kernbench::fuzz::topology_yaml {

namespace {

void check(std::string_view input) {
  const Topology topology = Topology::parse(input, "t.yaml");
  try {
    topology.check();
    if (Topology::parse(test::to_yaml(topology), "t.yaml") == topology) return;
  } catch (const Error& error) {
    throw Finding(fmt::format("accepted, and refused when printed: {}", error.what()));
  }
  throw Finding("printed and read again it is another topology:\n" + test::to_yaml(topology));
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
