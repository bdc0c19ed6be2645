#include "sim_engine/topology/system_yaml.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim_engine/topology/unlike_links.h"

namespace kernbench {

LinkSpec link_in(YamlMap& link) {
  return {.bandwidth = link.bandwidth("bandwidth"), .latency = link.time("latency")};
}

LinkSpec read_link(YamlMap link) {
  return link_in(link);
}

namespace {

constexpr int kMaxSips = 4096;
constexpr int kMaxGridSide = 256;
constexpr int kMaxLinks = 64;
constexpr int kMaxFullMesh = 64;
constexpr int kMaxLevels = 3;

// Grids and rings are connected by construction, so these are the only errors that a topology file
// can make about the graph.
void check_grid(YamlMap& sips, const Topology::System& system) {
  const bool has_depth = system.topology == SipTopology::torus_3d;
  const std::int64_t nodes = has_rows(system.topology) ? system.node_count() : 1;
  const std::int64_t product = std::int64_t{system.w} * system.h * system.d * nodes;
  if (!sips.is_fine({"count", "w", "h"}) || product == system.sip_count) return;
  if (has_depth && !sips.is_fine({"d"})) return;
  std::string factors = has_depth ? "w*h*d" : "w*h";
  std::string figures = fmt::format("{}*{}", system.w, system.h);
  if (has_depth) figures += fmt::format("*{}", system.d);
  if (nodes > 1) {
    factors += "*nodes";
    figures += fmt::format("*{}", nodes);
  }
  sips.fail("KB-Y030", fmt::format("{} = {} = {} but count = {}", factors, figures, product,
                                   system.sip_count));
}

void read_grid(YamlMap& sips, Topology::System& system) {
  if (!sips.has("w") && !sips.has("h") && !has_rows(system.topology)) return;
  system.w = sips.integer("w", 1, kMaxGridSide);
  system.h = sips.integer("h", 1, kMaxGridSide);
  if (system.topology == SipTopology::torus_3d) system.d = sips.integer("d", 1, kMaxGridSide);
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

// Links without a network in their middle cannot be passed on the way to another node.
void check_through_inner(YamlMap& nodes, SipTopology topology) {
  if (topology == SipTopology::switched) return;
  nodes.fail("through_inner", "KB-Y038",
             fmt::format("SIPs of innermost nodes have such links with 'topology: switch' alone "
                         "(here: {})",
                         name_of(topology)));
}

// Reads a level and those inside, outer to inner.  `sips` are those of the node around it; 0: that
// has an error of its own.
void read_levels(YamlMap nodes, int sips, SipTopology topology, std::vector<NodeLevel>& levels) {
  NodeLevel level;
  level.count = nodes.integer("count", 1, kMaxSips);
  level.link = read_link(nodes.map("link"));
  if (nodes.is_fine({"count"}) && sips % level.count != 0) {
    nodes.fail("count", "KB-Y030", fmt::format("{} SIPs are no equal nodes", sips));
  }
  sips = nodes.is_fine({"count"}) ? sips / level.count : 0;
  if (nodes.has("sips_per_link")) {
    level.sips_per_link = nodes.integer("sips_per_link", 1, kMaxSips);
    if (nodes.is_fine({"sips_per_link"}) && sips % level.sips_per_link != 0) {
      nodes.fail("sips_per_link", "KB-Y030",
                 fmt::format("does not divide the {} SIPs of a node", sips));
    }
  }
  if (nodes.has("through_inner")) level.through_inner = nodes.boolean("through_inner");
  levels.push_back(level);
  const bool has_inner = std::ssize(levels) < kMaxLevels && nodes.has("nodes");
  if (level.through_inner && !has_inner) check_through_inner(nodes, topology);
  if (has_inner) read_levels(nodes.map("nodes"), sips, topology, levels);
}

// Without a grid, nodes stand in a row: a column of the grid has one SIP of each.
void read_nodes(YamlMap& file, Topology::System& system) {
  if (!file.has("nodes")) return;
  std::vector<NodeLevel> levels;
  read_levels(file.map("nodes"), system.sip_count, system.topology, levels);
  if (!file.is_fine({"nodes"})) return;
  static_cast<NodeLevel&>(system.nodes) = levels.front();
  system.nodes.inner.assign(levels.begin() + 1, levels.end());
  if (has_rows(system.topology)) return;
  const auto count = static_cast<int>(system.node_count());
  system.w = system.sip_count / count;
  if (joins_all(system.topology)) system.h = count;
}

Topology::System read_sips(YamlMap& file) {
  Topology::System system;
  YamlMap sips = file.map("sips");
  system.sip_count = sips.integer("count", 1, kMaxSips);
  system.topology = sips.choice("topology", kSipTopologies);
  read_grid(sips, system);
  const bool in_rows = has_rows(system.topology);
  if (!in_rows) {
    if (sips.has("w")) check_grid(sips, system);
    system.w = system.sip_count;
    system.h = 1;
  }
  read_nodes(file, system);
  if (in_rows) check_grid(sips, system);
  return system;
}

Topology::System read_keys(YamlMap system) {
  Topology::System result = read_sips(system);
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
    if (result.network_switch.sums && result.node_count() > 1) {
      system.fail("switch", "KB-Y038", "'sums' have no meaning beside 'nodes': no switch adds up");
    }
  } else if (system.has("switch")) {
    system.fail("switch", "KB-Y038",
                fmt::format("has no meaning without 'topology: switch' (here: {})",
                            name_of(result.topology)));
  }
  return result;
}

// Links of a full mesh grow with the square of the SIPs.
void check_full_mesh(YamlMap& file, const Topology::System& system) {
  if (system.topology != SipTopology::full_mesh || system.sip_count <= kMaxFullMesh) return;
  file.fail("system", "KB-Y039",
            fmt::format("a full_mesh joins at most {} SIPs, not {}; a switch joins more",
                        kMaxFullMesh, system.sip_count));
}

}  // namespace

Topology::System read_system(YamlMap& file) {
  Topology::System system = read_keys(file.map("system"));
  check_full_mesh(file, system);
  return system;
}

}  // namespace kernbench
