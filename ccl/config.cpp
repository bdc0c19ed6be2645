#include "ccl/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/base/yaml_reader.h"

namespace kernbench::ccl {

namespace {

constexpr std::string_view kDefaultAlgorithm = "intercube_allreduce";
constexpr sim::IpcqParams kDefaultQueue{sim::BufferKind::tcm, 4, 16 << 10};
constexpr std::array<std::int64_t, 4> kDefaultElements = {1024, 4096, 16'384, 49'152};

constexpr int kMaxDepth = 1024;
constexpr Bytes kMaxSlot = Bytes{1} << 30;
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

std::vector<std::string_view> algorithm_names() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) names.push_back(algorithm.name);
  return names;
}

void add_name(std::vector<std::string_view>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// "unknown algorithm 'x'; there are: ..."
std::string unknown_algorithm(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string_view meant = nearest(name, known);
  if (!meant.empty()) return fmt::format("unknown algorithm '{}'; did you mean '{}'?", name, meant);
  return fmt::format("unknown algorithm '{}'; there are: {}", name, fmt::join(known, ", "));
}

Settings settings_of(YamlMap& map) {
  Settings settings;
  if (map.has("buffer_kind")) settings.buffer_kind = map.choice("buffer_kind", sim::kBufferKinds);
  if (map.has("depth")) settings.depth = map.integer("depth", 1, kMaxDepth);
  if (map.has("slot")) settings.slot_bytes = map.bytes("slot", 4, kMaxSlot);
  if (map.has("n_elem")) settings.n_elem = map.integers("n_elem", 0, kMaxElements);
  return settings;
}

std::vector<AlgorithmEntry> entries_of(YamlMap map) {
  std::vector<AlgorithmEntry> entries;
  for (const YamlNode* node : map.entries()) {
    YamlMap entry = map.map(*node);
    AlgorithmEntry& added = entries.emplace_back();
    added.name = node->key;
    added.kernel = entry.has("kernel") ? entry.text("kernel", kDefaultAlgorithm) : added.name;
    added.settings = settings_of(entry);
    if (find_algorithm(added.kernel) == nullptr) {
      entry.fail("KB-Y040", unknown_algorithm(added.kernel, algorithm_names()));
    }
  }
  return entries;
}

}  // namespace

Config::Config() : algorithm_(kDefaultAlgorithm) {}

Config Config::parse(std::string_view text, const std::string& name) {
  return read(YamlDocument::parse(text, name));
}

Config Config::load(const std::filesystem::path& path) {
  return read(YamlDocument::load(path));
}

Config Config::read(const YamlDocument& document) {
  YamlReader reader(document);
  Config config;
  {
    YamlMap root = reader.map(document.root());
    if (root.has("algorithms")) config.entries_ = entries_of(root.map("algorithms"));
    if (root.has("defaults")) {
      YamlMap defaults = root.map("defaults");
      if (defaults.has("algorithm")) {
        config.algorithm_ = defaults.text("algorithm", kDefaultAlgorithm);
      }
      config.defaults_ = settings_of(defaults);
      if (config.entry() == nullptr && find_algorithm(config.algorithm_) == nullptr) {
        std::vector<std::string_view> known = algorithm_names();
        for (const AlgorithmEntry& entry : config.entries_) add_name(known, entry.name);
        defaults.fail("algorithm", "KB-Y040", unknown_algorithm(config.algorithm_, known));
      }
    }
  }
  reader.finish();
  return config;
}

const AlgorithmEntry* Config::entry() const {
  const auto found = std::ranges::find(entries_, algorithm_, &AlgorithmEntry::name);
  return found == entries_.end() ? nullptr : &*found;
}

const Algorithm& Config::algorithm() const {
  const Algorithm* found = find_algorithm(entry() == nullptr ? algorithm_ : entry()->kernel);
  KB_CHECK(found != nullptr, "algorithm '{}'", algorithm_);
  return *found;
}

template <class Value>
Value Config::setting(std::optional<Value> Settings::*member, Value fallback) const {
  if (overrides_.*member) return *(overrides_.*member);
  if (entry() != nullptr && entry()->settings.*member) return *(entry()->settings.*member);
  return (defaults_.*member).value_or(fallback);
}

sim::IpcqParams Config::ipcq() const {
  return {setting(&Settings::buffer_kind, kDefaultQueue.buffer_kind),
          setting(&Settings::depth, kDefaultQueue.depth),
          setting(&Settings::slot_bytes, kDefaultQueue.slot_bytes)};
}

std::vector<std::int64_t> Config::n_elem() const {
  return setting(&Settings::n_elem, std::vector(kDefaultElements.begin(), kDefaultElements.end()));
}

Config Config::with_algorithm(std::string_view name) const {
  Config changed = *this;
  changed.algorithm_ = name;
  if (changed.entry() == nullptr && find_algorithm(name) == nullptr) {
    std::vector<std::string_view> known = algorithm_names();
    for (const AlgorithmEntry& entry : entries_) add_name(known, entry.name);
    throw UsageError("KB-U003", unknown_algorithm(name, known));
  }
  return changed;
}

Config Config::with_buffer_kind(sim::BufferKind kind) const {
  Config changed = *this;
  changed.overrides_.buffer_kind = kind;
  return changed;
}

}  // namespace kernbench::ccl
