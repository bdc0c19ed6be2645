#include "benches/variants/keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "benches/bench/inputs.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_document.h"
#include "sim_engine/config/yaml_key.h"
#include "sim_engine/topology/topology_keys.h"

namespace kernbench::benches::variants {

namespace {

constexpr std::string_view kDefaults = "defaults.";
constexpr std::string_view kEntries = "algorithms.";
constexpr std::string_view kProtocols = "protocols.";
constexpr std::string_view kRules = "rules[";

Key make_key(const SettingInfo& setting, const BenchInfo& bench) {
  return {.name = setting.key,
          .owner = KeyOwner::bench,
          .file = fmt::format("the bench {}", bench.name),
          .path = setting.key,
          .type = std::string(name_of(setting.type)),
          .unit = {},
          .allowed = {},
          .value = setting.fallback,
          .help = setting.help};
}

Key make_key(const YamlKey& key, KeyOwner owner, std::string name, const std::string& file) {
  return {.name = std::move(name),
          .owner = owner,
          .file = file,
          .path = key.path,
          .type = key.type,
          .unit = key.unit,
          .allowed = key.allowed,
          .value = key.value,
          .help = std::string(find_help(owner, key.path))};
}

std::vector<YamlKey> ccl_keys(const std::string& ccl) {
  std::vector<YamlKey> keys;
  ccl::Config::read(YamlDocument::parse(ccl_text(ccl), ccl_name(ccl)), &keys);
  // An entry could have every key; those that it has are enough.
  std::erase_if(
      keys, [](const YamlKey& key) { return key.path.starts_with(kEntries) && key.value.empty(); });
  return keys;
}

// The end of a name that has as many parts as another one.
std::string_view ending_like(std::string_view name, std::string_view other) {
  std::size_t start = name.size() + 1;
  for (auto parts = std::ranges::count(other, '.') + 1; parts > 0 && start > 0; --parts) {
    const std::size_t dot = start < 2 ? name.npos : name.rfind('.', start - 2);
    start = dot == name.npos ? 0 : dot + 1;
  }
  return name.substr(std::min(start, name.size()));
}

// The first name whose end is near to a misspelt one of several parts; empty if there is none.
std::string_view nearest_by_ending(std::string_view word, std::span<const std::string_view> names) {
  if (word.find('.') == word.npos) return {};
  std::vector<std::string_view> endings;
  for (const std::string_view name : names) endings.push_back(ending_like(name, word));
  const std::string_view near = nearest(word, endings);
  const auto found = std::ranges::find(endings, near);
  return near.empty() ? near : names[static_cast<std::size_t>(found - endings.begin())];
}

// Names the keys of ccl.yaml: "depth" of the defaults, "protocols.LL.start", and "rules.2.up_to" of
// the second rule (Config::number_of_rule()).  For the keys in their order.
class CclNames {
 public:
  std::string name(const std::string& path) {
    if (path.starts_with(kDefaults)) return path.substr(kDefaults.size());
    const std::size_t end = path.rfind('.');
    const std::size_t bracket = path.find(']');
    if (bracket == std::string::npos) return path;
    if (!path.starts_with(kRules)) return std::string(kProtocols) + path.substr(bracket + 2);
    if (path.substr(0, end) != rule_) ++rules_;
    rule_ = path.substr(0, end);
    return fmt::format("rules.{}{}", rules_, path.substr(end));
  }

 private:
  std::string rule_;  // "rules[0].all_reduce"
  int rules_ = 0;
};

}  // namespace

std::string ccl_path(const Key& key, const std::string& ccl) {
  if (key.path.find('[') == std::string::npos) return key.path;  // others may be added to a file
  CclNames names;
  for (const YamlKey& other : ccl_keys(ccl)) {
    if (names.name(other.path) == key.name) return other.path;
  }
  throw UsageError("KB-U011", "--set: {} has no key named {}", ccl_name(ccl), in_quotes(key.name));
}

bool Key::is_list() const {
  return type == "list" || type == "any" || type.starts_with("list of ");
}

Keys::Keys(const KeySources& sources) {
  if (sources.bench != nullptr) {
    for (const SettingInfo& setting : sources.bench->settings) {
      keys_.push_back(make_key(setting, *sources.bench));
    }
  }
  load_topology(sources.topology);  // its errors come before those of keys
  for (const YamlKey& key : topology_keys(topology_text(sources.topology), sources.topology)) {
    keys_.push_back(make_key(key, KeyOwner::topology, key.path,
                             fmt::format("the topology {}", sources.topology)));
  }
  CclNames names;
  const std::string ccl = ccl_of(sources.topology, sources.ccl);
  for (const YamlKey& key : ccl_keys(ccl)) {
    keys_.push_back(make_key(key, KeyOwner::ccl, names.name(key.path), ccl_name(ccl)));
  }
}

const Key* Keys::find_whole(std::string_view name) const {
  const auto found = std::ranges::find_if(
      keys_, [&](const Key& key) { return key.name == name || key.path == name; });
  return found == keys_.end() ? nullptr : &*found;
}

const Key& Keys::find(std::string_view name) const {
  if (const Key* const key = find_whole(name)) return *key;
  refuse("--set", name);
}

const Key& Keys::find_ending(std::string_view option, std::string_view name) const {
  if (const Key* const key = find_whole(name)) return *key;
  std::vector<const Key*> candidates;
  std::vector<std::string_view> names;
  const std::string ending = fmt::format(".{}", name);
  for (const Key& key : keys_) {
    if (!name.empty() && key.name.ends_with(ending)) {
      candidates.push_back(&key);
      names.push_back(key.name);
    }
  }
  if (candidates.size() == 1) return *candidates.front();
  if (candidates.empty()) refuse(option, name);
  throw UsageError("KB-U011", "{}: {} is the end of {} keys: {}", option, in_quotes(name),
                   names.size(), fmt::join(names, ", "));
}

void Keys::refuse(std::string_view option, std::string_view name) const {
  std::vector<std::string_view> names;
  for (const Key& key : keys_) names.push_back(key.name);
  std::string_view meant = nearest(name, names);
  if (meant.empty()) meant = nearest_by_ending(name, names);
  // There are so many keys that a short word is always near one: "foo" is two edits from "root".
  constexpr std::size_t kShort = 4;
  if (name.size() <= kShort && !meant.empty() && meant.front() != name.front()) meant = {};
  std::string hint = "; `kernbench keys` lists all";
  if (const auto found = std::ranges::find(keys_, meant, &Key::name); found != keys_.end()) {
    hint = fmt::format("; did you mean '{}' of {}?", meant, shown(found->file));
  }
  throw UsageError("KB-U011", "{}: no key is named {}{}", option, in_quotes(name), hint);
}

}  // namespace kernbench::benches::variants
