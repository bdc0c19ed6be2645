#include "ccl/core/config_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ccl/core/config.h"
#include "sim_engine/base/enum_names.h"

namespace kernbench::ccl {

namespace {

constexpr Bytes kMostBytes = Bytes{1} << 50;
constexpr int kMostRanks = 1 << 20;

std::vector<std::string_view> names_for(distributed::CollectiveKind kind) {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : algorithms()) {
    if (serves(*algorithm, kind)) names.push_back(algorithm->name);
  }
  names.push_back(kAuto);
  return names;
}

Rule read_rule(YamlMap map, distributed::CollectiveKind kind, std::span<const Protocol> protocols) {
  Rule rule;
  rule.kind = kind;
  const std::string name = map.text("algorithm", names_for(kind).front());
  if (map.has("above")) rule.above = map.bytes("above", 0, kMostBytes);
  if (map.has("up_to")) rule.up_to = map.bytes("up_to", 0, kMostBytes);
  if (map.has("ranks")) rule.ranks = map.integer("ranks", 1, kMostRanks);
  rule.algorithm = find_algorithm(name);
  const bool fits = rule.algorithm != nullptr && serves(*rule.algorithm, kind);
  if (!fits && name != kAuto && map.is_fine({"algorithm"})) {
    map.fail("algorithm", "KB-Y040",
             fmt::format("{} is no algorithm for {}; there are: {}", in_quotes(name),
                         name_of_kind(kind), fmt::join(names_for(kind), ", ")));
  }
  if (map.has("protocol")) rule.protocol = map.text("protocol", "LL");
  if (map.is_fine({"protocol"}) &&
      std::ranges::find(protocols, rule.protocol, &Protocol::name) == protocols.end()) {
    map.fail("protocol", "KB-Y040", fmt::format("'protocols' has no {}", in_quotes(rule.protocol)));
  }
  if (rule.above >= rule.up_to) {
    map.fail("up_to", "KB-Y020", "must be more than 'above': no size fits the rule");
  }
  return rule;
}

Protocol read_protocol(const YamlNode& node, YamlMap map) {
  Protocol protocol;
  protocol.name = node.key;
  if (map.has("up_to")) protocol.up_to = map.bytes("up_to", 0, kMostBytes);
  if (map.has("start")) protocol.start = map.time("start");
  protocol.latency = map.time("latency");
  if (map.has("efficiency")) protocol.efficiency = map.thousandths("efficiency");
  return protocol;
}

}  // namespace

std::vector<Protocol> read_protocols(YamlReader& reader, const YamlNode& list) {
  std::vector<Protocol> protocols;
  for (const YamlNode* entry : reader.list(list, "[{LL: {up_to: 64 KiB, latency: 600 ns}}]")) {
    YamlMap named = reader.map(*entry);
    for (const YamlNode* node : named.entries()) {
      const Bytes before = protocols.empty() ? -1 : protocols.back().up_to;
      protocols.push_back(read_protocol(*node, named.map(*node)));
      if (reader.is_fine(*node) && protocols.back().up_to <= before) {
        reader.fail_at(*node, "KB-Y045",
                       "no size is left for it: 'up_to' must ascend, and the last alone may have "
                       "none");
      }
    }
  }
  return protocols;
}

std::vector<Rule> read_rules(YamlReader& reader, const YamlNode& list,
                             std::span<const Protocol> protocols) {
  std::vector<Rule> rules;
  for (const YamlNode* node : reader.list(list, "[{all_reduce: {algorithm: tree_allreduce}}]")) {
    YamlMap collectives = reader.map(*node);
    for (const distributed::CollectiveKind kind : kPlannedKinds) {
      if (!collectives.has(name_of_kind(kind))) continue;
      rules.push_back(read_rule(collectives.map(name_of_kind(kind)), kind, protocols));
    }
  }
  return rules;
}

}  // namespace kernbench::ccl
