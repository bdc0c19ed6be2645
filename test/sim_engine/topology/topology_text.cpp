#include "test/sim_engine/topology/topology_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "sim_engine/topology/topology.h"
#include "test/support/error_text.h"

namespace kernbench::test {

std::filesystem::path topology_folder() {
  return std::filesystem::path(KERNBENCH_ROOT) / "topologies";
}

std::string to_text(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

const std::string& complete_topology() {
  static const std::string text = [] {
    std::string shipped = to_text(topology_folder() / "torus_2d_3x2.yaml");
    const auto insert_behind = [&](std::string_view known, std::string_view more) {
      const std::size_t begin = shipped.find(known);
      REQUIRE(begin != std::string::npos);
      shipped.insert(begin + known.size(), more);
    };
    insert_behind("noc: {bandwidth: 256 GB/s, latency: 4 ns",
                  ", corner: {bandwidth: 256 GB/s, latency: 2 ns}");
    insert_behind("lanes: 128\n", "    f16_per_lane: 2\n");
    insert_behind("output_stationary, clock: 1.5 GHz", ", overlap: true, f8_per_cell: 2");
    insert_behind("efficiency: 90 %,", " turn_around: 24 ns,");
    return shipped;
  }();
  return text;
}

std::string topology_error_of(const std::string& text) {
  return config_error_of([&] { Topology::parse(text, "t.yaml"); });
}

std::size_t offset_of(const std::string& text, TextMark mark) {
  std::size_t offset = 0;
  for (int line = 1; line < mark.line; ++line) offset = text.find('\n', offset) + 1;
  return offset + static_cast<std::size_t>(mark.column) - 1;
}

std::vector<const YamlNode*> all_nodes(const YamlNode& node) {
  std::vector<const YamlNode*> nodes = {&node};
  for (const YamlNode* child : node.children) {
    for (const YamlNode* inner : all_nodes(*child)) nodes.push_back(inner);
  }
  return nodes;
}

std::string with(const std::string& path, const std::string& value, std::string text) {
  const YamlDocument document = YamlDocument::parse(text, "t.yaml");
  for (const YamlNode* node : all_nodes(document.root())) {
    if (make_path(*node) != path) continue;
    REQUIRE(!node->text.empty());
    return text.replace(offset_of(text, node->mark), node->text.size(), value);
  }
  FAIL("there is no " << path);
  return "";
}

std::string error_at(const std::string& path, const std::string& value) {
  const std::string text = with(path, value);
  const YamlDocument original = YamlDocument::parse(complete_topology(), "t.yaml");
  const std::string error = topology_error_of(text);
  for (const YamlNode* node : all_nodes(original.root())) {
    if (make_path(*node) != path) continue;
    const std::string where = fmt::format("t.yaml:{}:{}: ", node->mark.line, node->mark.column);
    CHECK_THAT(error, Catch::StartsWith(where));
    return error.substr(std::min(where.size(), error.size()));
  }
  return "no such path";
}

}  // namespace kernbench::test
