#include "ccl/core/config_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ccl/core/config.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

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

bool can_serve(std::string_view name, distributed::CollectiveKind kind) {
  const Algorithm* algorithm = find_algorithm(name);
  return name == kAuto || (algorithm != nullptr && serves(*algorithm, kind));
}

std::string no_algorithm_for(std::string_view name, distributed::CollectiveKind kind) {
  return fmt::format("{} is no algorithm for {}; there are: {}", in_quotes(name),
                     traits_of(kind).name, fmt::join(names_for(kind), ", "));
}

// True if one of the maps in the list has the protocol.
bool has_protocol(const YamlNode* protocols, std::string_view name) {
  return protocols != nullptr &&
         std::ranges::any_of(protocols->children,
                             [&](const YamlNode* entry) { return entry->find(name) != nullptr; });
}

Rule read_rule(YamlMap map, distributed::CollectiveKind kind, const YamlNode* protocols) {
  Rule rule;
  rule.kind = kind;
  const std::string name = map.text("algorithm", names_for(kind).front());
  if (map.has("above")) rule.above = map.bytes("above", 0, kMostBytes);
  if (map.has("up_to")) rule.up_to = map.bytes("up_to", 0, kMostBytes);
  if (map.has("ranks")) rule.ranks = map.integer("ranks", 1, kMostRanks);
  if (map.has("group")) rule.group = map.text("group", "default_pg");
  rule.mark = map.find_mark("algorithm");
  rule.algorithm = find_algorithm(name);
  if (!can_serve(name, kind) && map.is_fine({"algorithm"})) {
    map.fail("algorithm", "KB-Y040", no_algorithm_for(name, kind));
  }
  if (map.has("protocol")) rule.protocol = map.text("protocol", "LL");
  if (map.is_fine({"protocol"}) && !has_protocol(protocols, rule.protocol)) {
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
  if (map.has("hop")) protocol.hop = map.time("hop");
  if (map.has("efficiency")) protocol.efficiency = map.share("efficiency");
  return protocol;
}

}  // namespace

std::string describe(const Rule& rule) {
  const TextMark mark = rule.mark.value_or(kNowhere);
  std::string text =
      fmt::format("{}:{} ({} by {}", mark.line, mark.column, traits_of(rule.kind).name,
                  rule.algorithm == nullptr ? kAuto : rule.algorithm->name);
  if (rule.above >= 0) text += fmt::format(", above {} B", rule.above);
  if (rule.up_to <= kMostBytes) text += fmt::format(", up to {} B", rule.up_to);
  if (rule.ranks) text += fmt::format(", ranks {}", *rule.ranks);
  if (!rule.group.empty()) text += fmt::format(", group {}", shown(rule.group));
  return text + ')';
}

std::vector<Protocol> read_protocols(YamlReader& reader, const YamlNode& list,
                                     std::span<const Rule> rules) {
  std::vector<Protocol> protocols;
  Bytes before = -1;  // the largest size that an earlier one serves
  const auto& entries = reader.list(list, "[{LL: {up_to: 64 KiB, latency: 600 ns}}]");
  for (const YamlNode* entry : entries) {
    YamlMap named = reader.map(*entry);
    for (const YamlNode* node : named.entries()) {
      Protocol& protocol = protocols.emplace_back(read_protocol(*node, named.map(*node)));
      const bool is_last = entry == entries.back() && node == named.entries().back();
      protocol.is_of_rules = !is_last && node->find("up_to") == nullptr;
      const bool serves = protocol.is_of_rules
                              ? std::ranges::find(rules, node->key, &Rule::protocol) != rules.end()
                              : protocol.up_to > before;
      if (reader.is_fine(*node) && !serves) {
        reader.fail_at(*node, "KB-Y045",
                       "no size is left for it, and no rule names it: 'up_to' must ascend, and the "
                       "last alone, and those that rules name, may have none");
      }
      if (!protocol.is_of_rules) before = protocol.up_to;
    }
  }
  return protocols;
}

std::vector<Rule> read_rules(YamlReader& reader, const YamlNode& list, const YamlNode* protocols) {
  std::vector<Rule> rules;
  for (const YamlNode* node : reader.list(list, "[{all_reduce: {algorithm: tree_allreduce}}]")) {
    YamlMap collectives = reader.map(*node);
    for (const distributed::CollectiveKind kind : kPlannedKinds) {
      const std::string_view name = traits_of(kind).name;
      if (!collectives.has(name) || !collectives.find_mark(name)) continue;
      rules.push_back(read_rule(collectives.map(name), kind, protocols));
    }
  }
  return rules;
}

std::vector<Rule> read_choice(std::string_view text) {
  const std::string_view where = text.substr(0, text.rfind(':'));
  const std::string_view name = text.substr(std::min(where.size() + 1, text.size()));
  const std::size_t at = std::min(where.find('@'), where.size());
  const auto named = std::ranges::find(kPlannedKinds, where.substr(0, at),
                                       [](auto kind) { return traits_of(kind).name; });
  if (named != kPlannedKinds.end() && !can_serve(name, *named)) {
    throw UsageError("KB-U003", no_algorithm_for(name, *named));
  }
  std::vector<Rule> rules;
  for (const distributed::CollectiveKind kind : kPlannedKinds) {
    if ((named != kPlannedKinds.end() && kind != *named) || !can_serve(name, kind)) continue;
    Rule& rule = rules.emplace_back();
    rule.kind = kind;
    rule.algorithm = find_algorithm(name);
    rule.group =
        named == kPlannedKinds.end() ? where : where.substr(std::min(at + 1, where.size()));
  }
  if (rules.empty()) {
    throw UsageError("KB-U003", "unknown algorithm {} for the group {}", in_quotes(name),
                     in_quotes(where));
  }
  return rules;
}

}  // namespace kernbench::ccl
