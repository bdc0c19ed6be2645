#include "benches/variants/keys.h"

#include <fmt/format.h>

#include <algorithm>

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

Key make_key(const YamlKey& key, KeyOwner owner, const std::string& file) {
  const bool is_default = owner == KeyOwner::ccl && key.path.starts_with(kDefaults);
  return {.name = is_default ? key.path.substr(kDefaults.size()) : key.path,
          .owner = owner,
          .file = file,
          .path = key.path,
          .type = key.type,
          .unit = key.unit,
          .allowed = key.allowed,
          .value = key.value,
          .help = std::string(find_help(owner, key.path))};
}

std::vector<YamlKey> ccl_keys(const std::string& path) {
  std::vector<YamlKey> keys;
  ccl::Config::read(YamlDocument::parse(ccl_text(path), path.empty() ? "ccl.yaml" : path), &keys);
  // An entry could have every key; those that it has are enough.
  std::erase_if(keys, [](const YamlKey& key) {
    const bool is_of_entry = key.path.starts_with(kEntries);
    return !key.path.starts_with(kDefaults) && (!is_of_entry || key.value.empty());
  });
  return keys;
}

}  // namespace

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
    keys_.push_back(
        make_key(key, KeyOwner::topology, fmt::format("the topology {}", sources.topology)));
  }
  for (const YamlKey& key : ccl_keys(sources.ccl)) {
    keys_.push_back(make_key(key, KeyOwner::ccl, sources.ccl.empty() ? "ccl.yaml" : sources.ccl));
  }
}

const Key& Keys::find(std::string_view name) const {
  for (const Key& key : keys_) {
    if (key.name == name || key.path == name) return key;
  }
  std::vector<std::string_view> names;
  for (const Key& key : keys_) names.push_back(key.name);
  std::string_view meant = nearest(name, names);
  // There are so many keys that a short word is always near one: "foo" is two edits from "root".
  constexpr std::size_t kShort = 4;
  if (name.size() <= kShort && !meant.empty() && meant.front() != name.front()) meant = {};
  std::string hint = "; `kernbench keys` lists all";
  if (const auto found = std::ranges::find(keys_, meant, &Key::name); found != keys_.end()) {
    hint = fmt::format("; did you mean '{}' of {}?", meant, shown(found->file));
  }
  throw UsageError("KB-U011", "--set: no key is named {}{}", in_quotes(name), hint);
}

}  // namespace kernbench::benches::variants
