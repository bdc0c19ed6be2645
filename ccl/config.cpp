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
constexpr int kMaxWorldSize = 1 << 20;

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : algorithms()) names.push_back(algorithm->name);
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

// What `defaults.algorithm` may be: a kernel, an entry, or auto.
std::vector<std::string_view> algorithm_names(const std::vector<AlgorithmEntry>& entries) {
  std::vector<std::string_view> names = kernel_names();
  for (const AlgorithmEntry& entry : entries) add_name(names, entry.name);
  add_name(names, kAuto);
  return names;
}

void read_wait(YamlMap& map, const Settings& inherited, Settings& settings) {
  if (map.has("wait")) settings.wait = map.choice("wait", sim::kWaitPolicies);
  if (!map.has("poll_interval")) return;
  settings.poll_interval = map.time("poll_interval");
  if ((settings.wait ? settings.wait : inherited.wait) != sim::WaitPolicy::poll) {
    map.fail("poll_interval", "KB-Y043", "has no meaning without 'wait: poll'");
  } else if (map.is_fine({"poll_interval"}) && settings.poll_interval <= Time{0}) {
    map.fail("poll_interval", "KB-Y020", "must be more than 0 ns");
  }
}

// `inherited` is what holds where the map says nothing.
Settings settings_of(YamlMap& map, const Settings& inherited) {
  Settings settings;
  if (map.has("buffer_kind")) settings.buffer_kind = map.choice("buffer_kind", sim::kBufferKinds);
  if (map.has("depth")) settings.depth = map.integer("depth", 1, kMaxDepth);
  if (map.has("slot")) settings.slot_bytes = map.bytes("slot", 4, kMaxSlot);
  read_wait(map, inherited, settings);
  if (map.has("n_elem")) settings.n_elem = map.integers("n_elem", 0, kMaxElements);
  if (map.has("world_size")) {
    settings.world_size = map.integer("world_size", 1, kMaxWorldSize);
  }
  if (map.has("participants")) settings.participants = map.choice("participants", kParticipants);
  if (map.has("root")) settings.root = map.choice("root", kRoots);
  if (map.has("neighbours")) settings.neighbours = map.choice("neighbours", kNeighbours);
  const bool has_either = settings.world_size || settings.participants;
  if (has_either && (settings.world_size || inherited.world_size) &&
      (settings.participants || inherited.participants)) {
    map.fail(settings.participants ? "participants" : "world_size", "KB-Y042",
             "world_size makes every PE a rank; participants chooses among the PEs of a SIP: keep "
             "one of them");
  }
  return settings;
}

std::vector<AlgorithmEntry> entries_of(YamlMap map, const Settings& defaults) {
  std::vector<AlgorithmEntry> entries;
  for (const YamlNode* node : map.entries()) {
    YamlMap entry = map.map(*node);
    AlgorithmEntry& added = entries.emplace_back();
    added.name = node->key;
    added.kernel = entry.has("kernel") ? entry.text("kernel", kDefaultAlgorithm) : added.name;
    added.settings = settings_of(entry, defaults);
    if (added.name == kAuto) {
      entry.fail("KB-Y040", "'auto' is no algorithm of its own; set what it runs with in defaults");
    } else if (find_algorithm(added.kernel) == nullptr) {
      entry.fail("KB-Y040", unknown_algorithm(added.kernel, kernel_names()));
    }
  }
  return entries;
}

}  // namespace

std::string_view name_of(Participants participants) {
  constexpr std::array<std::string_view, 2> kNames = {"shard_holders", "one_pe_per_sip"};
  return kNames.at(static_cast<std::size_t>(participants));
}

std::string_view name_of(Root root) {
  return root == Root::center ? "center" : "corner";
}

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
    const auto read_entries = [&] {
      if (!root.has("algorithms")) return;
      config.entries_ = entries_of(root.map("algorithms"), config.defaults_);
    };
    if (!root.has("defaults")) {
      read_entries();
    } else {
      YamlMap defaults = root.map("defaults");
      if (defaults.has("algorithm")) {
        config.algorithm_ = defaults.text("algorithm", kDefaultAlgorithm);
      }
      config.defaults_ = settings_of(defaults, {});
      read_entries();
      if (!config.is_known(config.algorithm_)) {
        defaults.fail("algorithm", "KB-Y040",
                      unknown_algorithm(config.algorithm_, algorithm_names(config.entries_)));
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

bool Config::is_known(std::string_view name) const {
  return name == kAuto || find_algorithm(name) != nullptr ||
         std::ranges::find(entries_, name, &AlgorithmEntry::name) != entries_.end();
}

std::vector<const Algorithm*> Config::candidates() const {
  if (!is_auto()) return {&algorithm()};
  std::vector<const Algorithm*> all = algorithms();
  std::erase_if(all, [](const Algorithm* one) { return !one->suits_auto; });
  return all;
}

template <class Value>
std::optional<Value> Config::setting(std::optional<Value> Settings::*member) const {
  if (overrides_.*member) return overrides_.*member;
  if (entry() != nullptr && entry()->settings.*member) return entry()->settings.*member;
  return defaults_.*member;
}

sim::IpcqParams Config::ipcq() const {
  return {setting(&Settings::buffer_kind).value_or(kDefaultQueue.buffer_kind),
          setting(&Settings::depth).value_or(kDefaultQueue.depth),
          setting(&Settings::slot_bytes).value_or(kDefaultQueue.slot_bytes),
          setting(&Settings::wait).value_or(kDefaultQueue.wait),
          setting(&Settings::poll_interval).value_or(kDefaultQueue.poll_interval)};
}

std::vector<std::int64_t> Config::n_elem() const {
  return setting(&Settings::n_elem)
      .value_or(std::vector(kDefaultElements.begin(), kDefaultElements.end()));
}

std::optional<int> Config::world_size() const {
  return setting(&Settings::world_size);
}

Participants Config::participants() const {
  return setting(&Settings::participants).value_or(Participants::shard_holders);
}

Root Config::root() const {
  return setting(&Settings::root).value_or(Root::center);
}

std::set<Neighbours> Config::neighbours() const {
  const auto chosen = setting(&Settings::neighbours);
  if (chosen && !is_auto()) return {*chosen};
  std::set<Neighbours> wanted;
  for (const Algorithm* candidate : candidates()) wanted.insert(candidate->neighbours);
  return wanted;
}

Config Config::with_algorithm(std::string_view name) const {
  if (!is_known(name)) {
    throw UsageError("KB-U003", unknown_algorithm(name, algorithm_names(entries_)));
  }
  Config changed = *this;
  changed.algorithm_ = name;
  return changed;
}

Config Config::with_buffer_kind(sim::BufferKind kind) const {
  Config changed = *this;
  changed.overrides_.buffer_kind = kind;
  return changed;
}

Config Config::with_world_size(int world_size) const {
  Config changed = *this;
  changed.overrides_.world_size = world_size;
  return changed;
}

Config Config::with_root(Root root) const {
  Config changed = *this;
  changed.overrides_.root = root;
  return changed;
}

}  // namespace kernbench::ccl
