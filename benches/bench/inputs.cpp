#include "benches/bench/inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "benches/bench/settings.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/input_file.h"
#include "sim_engine/config/yaml_scalar.h"

namespace kernbench::benches {

namespace {

constexpr Bytes kMaxQuantity = Bytes{1} << 40;  // 1 TiB

constexpr Bytes kMaxInputBytes = Bytes{1} << 30;

bool looks_like_path(const std::string& text) {
  std::error_code ignored;
  return text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".yml") ||
         std::filesystem::exists(text, ignored);
}

std::string_view words(SipTopology topology) {
  switch (topology) {
    case SipTopology::ring_1d:
      return "in a ring";
    case SipTopology::torus_2d:
      return "torus";
    case SipTopology::torus_3d:
      return "torus";
    case SipTopology::full_mesh:
      return "joined each to each";
    case SipTopology::switched:
      return "at a switch";
    case SipTopology::mesh_2d_no_wrap:
      break;
  }
  return "mesh without wrap-around";
}

std::string describe_sips(const Topology::System& system) {
  if (system.sip_count == 1) return "1 SIP";
  if (system.node_count() > 1) {
    std::string nodes = fmt::format("{} nodes", system.nodes.count);
    for (const NodeLevel& level : system.nodes.inner)
      nodes += fmt::format(" of {} nodes", level.count);
    return fmt::format("{} SIPs in {}, those of a node {}{}", system.sip_count, nodes,
                       has_rows(system.topology) ? "in a " : "", words(system.topology));
  }
  if (system.topology == SipTopology::torus_3d) {
    return fmt::format("{} SIPs in a {} x {} x {} torus", system.sip_count, system.w, system.h,
                       system.d);
  }
  if (!has_rows(system.topology)) {
    return fmt::format("{} SIPs {}", system.sip_count, words(system.topology));
  }
  return fmt::format("{} SIPs in a {} x {} {}", system.sip_count, system.w, system.h,
                     words(system.topology));
}

}  // namespace

std::string first_sentence(std::string_view yaml) {
  std::string text;
  while (yaml.starts_with("# ")) {
    const std::size_t end = std::min(yaml.find('\n'), yaml.size());
    text += (text.empty() ? "" : " ") + std::string(yaml.substr(2, end - 2));
    yaml.remove_prefix(std::min(end + 1, yaml.size()));
  }
  const std::size_t stop = text.find(". ");
  if (stop != std::string::npos) text.resize(stop + 1);
  return text;
}

std::string_view shipped_ccl_config() {
  return shipped_ccl_configs().front().text;
}

Topology load_topology(const std::string& name_or_path) {
  if (find_shipped_topology(name_or_path) != nullptr || looks_like_path(name_or_path)) {
    return Topology::load(name_or_path);
  }
  std::vector<std::string_view> names;
  for (const ShippedTopology& topology : shipped_topologies()) names.push_back(topology.name);
  throw UsageError("KB-U004", "no topology is named {}, and there is no such file{}",
                   in_quotes(name_or_path), suggestion(name_or_path, names));
}

std::string topology_text(const std::string& name_or_path) {
  const ShippedTopology* shipped = find_shipped_topology(name_or_path);
  return shipped != nullptr ? std::string(shipped->text)
                            : read_input_file(name_or_path, kMaxInputBytes);
}

std::string ccl_of(const std::string& topology, const std::string& ccl) {
  if (!ccl.empty()) return ccl;
  if (find_embedded_file(shipped_ccl_configs(), topology) != nullptr) return topology;
  const std::filesystem::path file(topology);
  const std::filesystem::path beside = file.parent_path() / file.stem() / "ccl.yaml";
  std::error_code ignored;
  const bool is_path = looks_like_path(topology) && find_shipped_topology(topology) == nullptr;
  return is_path && std::filesystem::exists(beside, ignored) ? beside.string() : "";
}

std::string ccl_name(const std::string& name_or_path) {
  if (name_or_path.empty()) return "ccl.yaml";
  const bool is_shipped = find_embedded_file(shipped_ccl_configs(), name_or_path) != nullptr;
  return is_shipped ? name_or_path + "/ccl.yaml" : name_or_path;
}

std::string ccl_text(const std::string& name_or_path) {
  if (name_or_path.empty()) return std::string(shipped_ccl_config());
  const EmbeddedFile* const shipped = find_embedded_file(shipped_ccl_configs(), name_or_path);
  return shipped != nullptr ? std::string(shipped->text)
                            : read_input_file(name_or_path, kMaxInputBytes);
}

std::string describe(const Topology& topology) {
  return fmt::format("{}, {} each", describe_sips(topology.system), describe_sip(topology));
}

std::string describe_sip(const Topology& topology) {
  const int cubes = topology.cube_count();
  const int pes = topology.pe_count();
  return fmt::format("{} x {} cube{} of {} PE{}", topology.sip.cubes_w, topology.sip.cubes_h,
                     cubes == 1 ? "" : "s", pes, pes == 1 ? "" : "s");
}

int pes_of_sip(const Topology& topology) {
  return topology.cube_count() * topology.pe_count();
}

ccl::Config load_ccl(const std::string& name_or_path) {
  return ccl::Config::parse(ccl_text(name_or_path), ccl_name(name_or_path));
}

std::string with_spaced_unit(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789.");
  std::string spaced(text);
  if (unit == std::string_view::npos || unit == 0) return spaced;
  if (text[unit] != ' ') spaced.insert(unit, 1, ' ');
  if (spaced.ends_with("Ki") || spaced.ends_with("Mi") || spaced.ends_with("Gi")) spaced += 'B';
  return spaced;
}

Bytes parse_bytes(std::string_view option, std::string_view text) {
  std::string spaced = with_spaced_unit(text);
  if (text.find_first_not_of("0123456789.") == std::string_view::npos) spaced += " B";
  const bool is_negative = text.starts_with('-') && text.find_first_of("0123456789") == 1;
  if (is_negative) {
    throw UsageError("KB-U012", "{} {}: expected a size from 0 to 1 TiB, such as 65536 or 64KiB",
                     option, in_quotes(text));
  }
  const ParsedScalar parsed = parse_quantity(spaced, bytes_quantity(0, kMaxQuantity));
  if (!parsed.code.empty()) {
    throw UsageError("KB-U012", "{} {}: {}", option, in_quotes(text), parsed.fault);
  }
  return parsed.value;
}

}  // namespace kernbench::benches
