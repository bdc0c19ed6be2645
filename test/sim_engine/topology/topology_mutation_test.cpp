// Topology files with one thing wrong: every key, every number, random damage.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <random>

#include "sim_engine/topology/topology.h"
#include "test/sim_engine/topology/topology_text.h"
#include "test/support/error_text.h"

namespace kernbench::test::topology_mutation_test {

namespace {

using Catch::Contains;
using Catch::StartsWith;

struct NumericField {
  std::string path;
  std::string unit;   // " ns"; empty for a count
  std::string below;  // the least value that is too small
  std::string min;
  std::string max;
  std::string above;
};

const std::vector<NumericField>& numeric_fields() {
  static const std::vector<NumericField> fields = [] {
    std::vector<NumericField> all;
    const auto count = [&](const std::string& path, int min, int max) {
      all.push_back({path, "", fmt::format("{}", min - 1), fmt::format("{}", min),
                     fmt::format("{}", max), fmt::format("{}", max + 1)});
    };
    count("kernbench_topology", 1, 1);
    count("system.sips.count", 1, 4096);
    count("system.sips.w", 1, 256);
    count("system.sips.h", 1, 256);
    count("sip.cube_mesh.w", 1, 256);
    count("sip.cube_mesh.h", 1, 256);
    count("cube.pe_layout.pe_per_corner", 1, 16);
    count("cube.hbm.channels", 1, 1024);
    count("cube.hbm.slices", 1, 1024);
    count("pe.math.lanes", 1, 65536);
    count("pe.math.f16_per_lane", 1, 4);
    count("pe.gemm.f8_per_cell", 1, 4);
    for (const MathKind kind : kMathKinds) {
      count(fmt::format("pe.math.cycles.{}", name_of(kind)), 1, 1024);
    }
    count("pe.gemm.rows", 1, 4096);
    count("pe.gemm.columns", 1, 4096);
    for (const char* path :
         {"system.sip_link.latency", "system.host_link.latency", "system.host_link.issue",
          "sip.ucie.latency", "sip.io_chiplet.dispatch", "cube.noc.latency",
          "cube.noc.corner.latency", "cube.m_cpu.dispatch", "cube.sram.latency", "cube.hbm.latency",
          "cube.hbm.turn_around", "pe.cpu.issue", "pe.scheduler.dispatch", "pe.dma.setup",
          "pe.mmu.latency", "pe.tcm.latency", "pe.ipcq.latency"}) {
      all.push_back({path, " ns", "-1 ps", "0 ns", "1 s", "1000000000001 ps"});
    }
    for (const char* path :
         {"system.sip_link.bandwidth", "system.host_link.bandwidth", "sip.ucie.bandwidth",
          "cube.noc.bandwidth", "cube.noc.corner.bandwidth", "cube.sram.bandwidth",
          "cube.hbm.bandwidth", "pe.tcm.bandwidth", "pe.tcm.compute_bandwidth"}) {
      all.push_back({path, " GB/s", "999999 B/s", "1 MB/s", "1000 TB/s", "1000000000000001 B/s"});
    }
    for (const char* path : {"pe.math.clock", "pe.gemm.clock"}) {
      all.push_back({path, " GHz", "999999 Hz", "1 MHz", "1000 GHz", "1000000000001 Hz"});
    }
    for (const char* path : {"cube.sram.capacity", "cube.hbm.capacity", "pe.tcm.capacity"}) {
      all.push_back({path, " MiB", "0 B", "1 B", "1 TiB", "1099511627777 B"});
    }
    for (const char* path : {"communication.packet", "communication.scratch"}) {
      all.push_back({path, " KiB", "-1 B", "0 B", "1 TiB", "1099511627777 B"});
    }
    for (const EnergyUnit unit : kEnergyUnits) {
      const bool of_operations = counts_operations(unit);
      all.push_back(
          {fmt::format("energy.{}", name_of(unit)), of_operations ? " pJ/FLOP" : " pJ/bit",
           of_operations ? "-1 fJ/FLOP" : "-1 fJ/B", of_operations ? "0 fJ/FLOP" : "0 fJ/B",
           of_operations ? "1000 pJ/FLOP" : "1000 pJ/bit",
           of_operations ? "1000001 fJ/FLOP" : "8000001 fJ/B"});
    }
    all.push_back({"cube.hbm.efficiency", " %", "0.0999 %", "0.1 %", "100 %", "100.0001 %"});
    all.push_back({"pe.mmu.page", " KiB", "0 B", "1 B", "1 TiB", "2 TiB"});
    return all;
  }();
  return fields;
}

}  // namespace

TEST_CASE("in zero_overhead.yaml nothing but the links between devices takes time", "[topology]") {
  for (const NumericField& field : numeric_fields()) {
    const bool is_free = field.unit == " ns" || field.unit == " GB/s" || field.unit == " GHz";
    if (!is_free || field.path.starts_with("system.sip_link.")) continue;
    // The file has none of them.
    if (field.path.starts_with("cube.noc.corner.") || field.path == "cube.hbm.turn_around" ||
        field.path == "pe.tcm.compute_bandwidth") {
      continue;
    }
    INFO(field.path);
    const std::string text = to_text(topology_folder() / "zero_overhead.yaml");
    CHECK(with(field.path, field.unit == " ns" ? "0 ns" : "unlimited", text) == text);
  }
  const Topology topology = Topology::load(topology_folder() / "zero_overhead.yaml");
  CHECK(topology.system.sip_link.bandwidth == Bandwidth{50'000'000'000});
  CHECK(topology.system.sip_link.latency == Time{500'000});
}

TEST_CASE("every key, mutated by one edit, is refused", "[topology][exhaustive]") {
  const YamlDocument document = YamlDocument::parse(complete_topology(), "t.yaml");
  std::size_t key_count = 0;
  for (const YamlNode* node : all_nodes(document.root())) {
    if (node->key.empty()) continue;
    ++key_count;
    const std::string& key = node->key;
    const std::size_t offset = offset_of(complete_topology(), node->key_mark);
    REQUIRE(complete_topology().substr(offset, key.size()) == key);
    const auto require_refused = [&](const std::string& edited) {
      if (edited == key) return;  // two equal letters swapped
      std::string text = complete_topology();
      const std::string error = topology_error_of(text.replace(offset, key.size(), edited));
      CAPTURE(edited, error);
      REQUIRE(error != "no error");
    };
    for (std::size_t i = 0; i <= key.size(); ++i) {
      require_refused(std::string(key).insert(i, "x"));
      if (i == key.size()) break;
      require_refused(std::string(key).erase(i, 1));
      require_refused(std::string(key).replace(i, 1, "x"));
      if (i + 1 == key.size()) continue;
      std::string swapped = key;
      std::swap(swapped[i], swapped[i + 1]);
      require_refused(swapped);
    }
  }
  CHECK(key_count == 104);
}

TEST_CASE("every key that is not optional is required, and its error names it with an example",
          "[topology]") {
  const YamlDocument document = YamlDocument::parse(complete_topology(), "t.yaml");
  for (const YamlNode* node : all_nodes(document.root())) {
    constexpr std::array kOptional = {
        "communication", "launch",      "issue",       "corner",
        "slices",        "efficiency",  "turn_around", "compute_bandwidth",
        "overlap",       "f16_per_lane",    "f8_per_cell"};
    const bool is_of_energy = make_path(*node).starts_with("energy");
    const bool is_optional =
        is_of_energy || std::ranges::find(kOptional, node->key) != kOptional.end();
    if (node->key.empty() || is_optional) continue;
    // Renaming beyond likeness leaves its old name missing.
    std::string text = complete_topology();
    const std::string error = topology_error_of(
        text.replace(offset_of(text, node->key_mark), node->key.size(), "something_else"));
    const std::string parent = make_path(*node->parent);
    INFO(error);
    CHECK_THAT(error,
               Says("KB-Y016", "'" + node->key + "'" + (parent.empty() ? "" : " in " + parent),
                    node->key + ":"));
    CHECK_THAT(error, Says("KB-Y010", "'something_else'"));
  }
}

TEST_CASE("every number is refused outside of its range and accepted at its ends",
          "[topology][exhaustive]") {
  for (const NumericField& field : numeric_fields()) {
    INFO(field.path);
    for (const std::string& value :
         {field.below, field.above, "-1" + field.unit, "9223372036854775808" + field.unit,
          "18446744073709551617" + field.unit}) {
      const std::string code = field.path == "kernbench_topology"
                                   ? "[KB-Y020] kernbench_topology: must be 1, not "
                                   : "[KB-Y020] " + field.path + ": " + value + " not in ";
      CHECK_THAT(error_at(field.path, value), StartsWith(code));
    }
    for (const std::string value :
         {"-0", ".nan", ".inf", "1e400", "1e3", "0x10", "010", "yes", "~", "null", "+1"}) {
      CHECK_THAT(error_at(field.path, value + field.unit), Says("KB-Y011", field.path));
    }
    for (const std::string value : {"\"4\"", "[4]", "{a: 4}"}) {
      CHECK_THAT(error_at(field.path, value), Says("KB-Y011", field.path));
    }
    // At its ends there may be another rule, never this one.
    CHECK_THAT(topology_error_of(with(field.path, field.min)), !Contains("KB-Y020"));
    CHECK_THAT(topology_error_of(with(field.path, field.max)), !Contains("KB-Y020"));
  }
}

TEST_CASE("the list of numeric fields is complete", "[topology]") {
  const YamlDocument document = YamlDocument::parse(complete_topology(), "t.yaml");
  std::vector<std::string> in_file;
  for (const YamlNode* node : all_nodes(document.root())) {
    if (!node->text.empty() && std::isdigit(node->text.front()))
      in_file.push_back(make_path(*node));
  }
  std::vector<std::string> in_list;
  for (const NumericField& field : numeric_fields()) in_list.push_back(field.path);
  std::ranges::sort(in_file);
  std::ranges::sort(in_list);
  CHECK(in_file == in_list);
}

TEST_CASE("random damage to a file is a configuration error or harmless, never more",
          "[topology][exhaustive]") {
  std::mt19937_64 random(7);
  const std::string alphabet = "{}[]:,#&*!|>'\"%@`-? \n\r\t~0a\xC3\x80<";
  int refused = 0;
  for (int run = 0; run < 2000; ++run) {
    std::string text = complete_topology();
    for (auto edits = random() % 4 + 1; edits > 0; --edits) {
      const std::size_t at = random() % text.size();
      const char letter = alphabet[random() % alphabet.size()];
      if (random() % 3 == 0) {
        text.erase(at, random() % 20);
      } else if (random() % 2 == 0) {
        text.insert(at, 1, letter);
      } else {
        text[at] = letter;
      }
    }
    const std::string error = topology_error_of(text);
    if (error == "no error") continue;
    ++refused;
    CHECK_THAT(error, StartsWith("t.yaml:"));
  }
  CHECK(refused > 1000);
  CHECK(refused < 2000);
}

}  // namespace kernbench::test::topology_mutation_test
