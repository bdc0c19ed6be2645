#include "ccl/core/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "ccl/core/config_entries.h"
#include "ccl/core/config_rules.h"
#include "ccl/core/config_settings.h"
#include "sim_engine/base/check.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"
#include "sim_engine/config/yaml_reader.h"

namespace kernbench::ccl {

namespace {

constexpr sim::IpcqParams kDefaultQueue{sim::BufferKind::tcm, 4, 16 << 10};
constexpr Bytes kDefaultEager = 1 << 10;
constexpr std::array<std::int64_t, 4> kDefaultElements = {1024, 4096, 16'384, 49'152};

}  // namespace

std::string_view name_of(Participants participants) {
  constexpr std::array<std::string_view, 2> kNames = {"shard_holders", "one_pe_per_sip"};
  return name_in(kNames, participants);
}

std::string_view name_of(Root root) {
  constexpr std::array<std::string_view, kRootChoices.size()> kNames = {"center", "corner",
                                                                        "first_corner", "auto"};
  return name_in(kNames, root);
}

struct Config::State {
  std::string file_name = {};  // empty: it does not come from a file
  std::string algorithm{kDefaultAlgorithm};
  bool names_algorithm = false;
  Settings overrides = {};
  Settings defaults = {};
  std::vector<AlgorithmEntry> entries = {};
  std::vector<Rule> rules = {};
  std::vector<Protocol> protocols = {};
  std::optional<TextMark> algorithm_mark = {};
  bool is_overridden = false;      // with_algorithm() has chosen the algorithm
  std::vector<Rule> choices = {};  // of with_algorithm(): they go before `rules`
  std::string choice_text = {};

  const AlgorithmEntry* entry() const {
    const auto found = std::ranges::find(entries, algorithm, &AlgorithmEntry::name);
    return found == entries.end() ? nullptr : &*found;
  }
  bool is_known(std::string_view name) const {
    return name == kAuto || find_default(name) != nullptr ||
           std::ranges::find(entries, name, &AlgorithmEntry::name) != entries.end();
  }
  // Returns the first rule that fits, in the order in which rules are tried.
  template <class Fits>
  const Rule* find_rule(const Fits& fits) const {
    for (const Rule& rule : choices) {
      if (fits(rule)) return &rule;
    }
    for (const Rule& rule : rules) {
      const bool is_replaced =
          is_overridden && rule.kind == distributed::CollectiveKind::all_reduce;
      if (!is_replaced && fits(rule)) return &rule;
    }
    return nullptr;
  }
  // Returns the value in force: an override, the entry's, or the default.
  template <class Value>
  std::optional<Value> setting(std::optional<Value> Settings::*member) const {
    if (overrides.*member) return overrides.*member;
    if (entry() != nullptr && entry()->settings.*member) return entry()->settings.*member;
    return defaults.*member;
  }
};

Config::Config() : state_(std::make_shared<const State>()) {}

const std::string& Config::algorithm_name() const {
  return state_->algorithm;
}

bool Config::names_algorithm() const {
  return state_->names_algorithm;
}

bool Config::names_all_reduce() const {
  return state_->algorithm_mark.has_value() || state_->is_overridden;
}

const std::string& Config::choice_text() const {
  return state_->choice_text.empty() ? state_->algorithm : state_->choice_text;
}

Config::operator std::shared_ptr<const distributed::BackendConfig>() const {
  return std::make_shared<const Config>(*this);
}

template <class Change>
Config Config::with(const Change& change) const {
  auto state = std::make_shared<State>(*state_);
  change(*state);
  Config changed;
  changed.state_ = std::move(state);
  return changed;
}

Config Config::parse(std::string_view text, const std::string& name) {
  return read(YamlDocument::parse(text, name));
}

Config Config::load(const std::string& path) {
  return read(YamlDocument::load(path));
}

Config Config::read(const YamlDocument& document, std::vector<YamlKey>* keys) {
  YamlReader reader(document, keys);
  State state;
  state.file_name = document.errors().file_name();
  {
    YamlMap root = reader.map(document.root());
    // Entries inherit the defaults, and the check of `algorithm` needs the entries, so they are
    // read in between.
    const auto read_entries = [&] {
      if (!root.has("algorithms")) return;
      state.entries = parse_entries(root.map("algorithms"), state.defaults, state.algorithm);
    };
    const YamlNode* const protocols = document.root().find("protocols");
    const YamlNode* const rules = document.root().find("rules");
    if (root.has("rules") && rules != nullptr) {
      state.rules = read_rules(reader, *rules, protocols);
    }
    if (root.has("protocols") && protocols != nullptr) {
      state.protocols = read_protocols(reader, *protocols, state.rules);
    }
    if (!root.has("defaults")) {
      read_entries();
    } else {
      YamlMap defaults = root.map("defaults");
      if (defaults.has("algorithm")) {
        state.algorithm = defaults.text("algorithm", kDefaultAlgorithm);
        state.names_algorithm = true;
        state.algorithm_mark = defaults.find_mark("algorithm");
      }
      for (const std::string_view key : {"rules", "algorithms", "protocols"}) {
        if (!defaults.find_mark(key) || !defaults.has(key)) continue;
        defaults.fail(key, "KB-Y010", "is a key of the top level, beside 'defaults', not in it");
      }
      state.defaults = read_settings(defaults, {});
      read_entries();
      if (!state.is_known(state.algorithm)) {
        defaults.fail("algorithm", "KB-Y040",
                      unknown_algorithm(state.algorithm, algorithm_names(state.entries)));
      }
    }
  }
  reader.finish();
  return Config().with([&](State& read) { read = std::move(state); });
}

const Algorithm& Config::algorithm() const {
  const Algorithm* found =
      find_algorithm(state_->entry() == nullptr ? state_->algorithm : state_->entry()->kernel);
  KB_CHECK(found != nullptr, "algorithm '{}'", state_->algorithm);
  return *found;
}

std::vector<const Algorithm*> Config::candidates() const {
  if (!is_auto()) return {&algorithm()};
  std::vector<const Algorithm*> all = algorithms();
  std::erase_if(all, [](const Algorithm* one) {
    return !one->suits_auto || one->network != Network::any || one->misfit != nullptr ||
           !serves(*one, distributed::CollectiveKind::all_reduce);
  });
  return all;
}

const Rule* Config::rule_for(distributed::CollectiveKind kind, int ranks, Bytes bytes,
                             std::string_view group) const {
  return state_->find_rule(
      [&](const Rule& rule) { return rule.fits(kind, bytes) && rule.fits_group(ranks, group); });
}

std::vector<const Rule*> Config::select_rules(int ranks, std::string_view group) const {
  std::vector<const Rule*> all;
  state_->find_rule([&](const Rule& rule) {
    if (rule.fits_group(ranks, group)) all.push_back(&rule);
    return false;
  });
  return all;
}

bool Config::is_chosen(const Rule* rule) const {
  if (state_->choice_text.empty()) return true;
  if (rule == nullptr) return state_->is_overridden;
  return std::ranges::any_of(state_->choices, [&](const Rule& one) { return &one == rule; });
}

bool Config::is_overridden() const {
  return state_->is_overridden;
}

void Config::refuse_algorithm(const Rule* rule, std::string_view why) const {
  const std::optional<TextMark> mark = rule != nullptr ? rule->mark : state_->algorithm_mark;
  if (mark && !(rule == nullptr && state_->is_overridden)) {
    ConfigErrors errors(state_->file_name);
    errors.add(*mark, "KB-Y047", std::string(why));
    errors.throw_if_any();
  }
  throw ConfigError("KB-Y047", std::string(why));
}

const Protocol* Config::protocol_for(Bytes size, const Rule* rule) const {
  const bool is_named = rule != nullptr && !rule->protocol.empty();
  const auto found = std::ranges::find_if(state_->protocols, [&](const Protocol& protocol) {
    if (is_named) return protocol.name == rule->protocol;
    return !protocol.is_of_rules && size <= protocol.up_to;
  });
  return found == state_->protocols.end() ? nullptr : &*found;
}

sim::IpcqParams Config::ipcq() const {
  return {state_->setting(&Settings::buffer_kind).value_or(kDefaultQueue.buffer_kind),
          state_->setting(&Settings::depth).value_or(kDefaultQueue.depth),
          state_->setting(&Settings::slot_bytes).value_or(kDefaultQueue.slot_bytes),
          state_->setting(&Settings::wait).value_or(kDefaultQueue.wait),
          state_->setting(&Settings::poll_interval).value_or(kDefaultQueue.poll_interval)};
}

Bytes Config::eager_bytes() const {
  return state_->setting(&Settings::eager_bytes).value_or(kDefaultEager);
}

std::vector<std::int64_t> Config::n_elem() const {
  return state_->setting(&Settings::n_elem)
      .value_or(std::vector(kDefaultElements.begin(), kDefaultElements.end()));
}

std::optional<int> Config::world_size() const {
  return state_->setting(&Settings::world_size);
}

Participants Config::participants() const {
  return state_->setting(&Settings::participants).value_or(Participants::shard_holders);
}

Root Config::root() const {
  return roots().front();
}

std::vector<Root> Config::roots() const {
  const Root root = state_->setting(&Settings::root).value_or(Root::center);
  if (root != Root::automatic) return {root};
  return {kRoots.begin(), kRoots.end()};
}

std::vector<Neighbours> Config::neighbours() const {
  const auto chosen = state_->setting(&Settings::neighbours);
  if (chosen && !is_auto()) return {*chosen};
  std::set<Neighbours> wanted;
  for (const Algorithm* candidate : candidates()) wanted.insert(candidate->neighbours);
  return {wanted.begin(), wanted.end()};
}

std::vector<std::string> Config::unused_entries() const {
  std::vector<std::string> names;
  for (const AlgorithmEntry& entry : state_->entries) {
    if (entry.kernel != entry.name && entry.name != state_->algorithm) names.push_back(entry.name);
  }
  return names;
}

int Config::number_of_rule(const Rule* rule) const {
  for (std::size_t i = 0; i < state_->rules.size(); ++i) {
    if (&state_->rules[i] == rule) return static_cast<int>(i) + 1;
  }
  return 0;
}

std::vector<std::string> Config::unused_rules(const std::vector<int>& used) const {
  std::vector<std::string> texts;
  for (const Rule& rule : state_->rules) {
    if (std::ranges::find(used, number_of_rule(&rule)) != used.end()) continue;
    texts.push_back(fmt::format("the rule of {}:{}", state_->file_name, describe(rule)));
  }
  return texts;
}

void Config::refuse_queues(std::string_view why) const {
  std::optional<TextMark> mark = state_->defaults.queues_mark;
  const AlgorithmEntry* const entry = state_->entry();
  if (entry != nullptr && entry->settings.queues_mark) mark = entry->settings.queues_mark;
  if (!mark || state_->overrides.buffer_kind) return;
  ConfigErrors errors(state_->file_name);
  errors.add(*mark, "KB-Y044", std::string(why));
  errors.throw_if_any();
}

Config Config::with_algorithm(std::string_view list) const {
  return with([&](State& state) {
    state.names_algorithm = true;
    state.choice_text = list;
    const bool is_one = state_->is_known(list);  // an entry's name may have any character
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::string_view one =
          is_one ? list : list.substr(begin, list.find('+', begin) - begin);
      begin += one.size() + 1;
      if (state_->is_known(one)) {
        state.algorithm = one;
        state.is_overridden = true;
        if (state.entry() != nullptr && state.entry()->settings.conflicts) {
          throw ConfigError("KB-Y042", "algorithms.{}: {}", one, kRanksConflict);
        }
      } else if (one.find(':') != std::string_view::npos) {
        std::ranges::copy(read_choice(one), std::back_inserter(state.choices));
      } else {
        throw UsageError("KB-U003", unknown_algorithm(one, algorithm_names(state_->entries)));
      }
    }
  });
}

namespace {

template <class Enum, std::size_t n>
void check_choice(std::string_view key, Enum value, const std::array<Enum, n>& values) {
  if (is_enumerator(value, n)) return;
  std::vector<std::string_view> names;
  for (const Enum one : values) names.push_back(name_of(one));
  throw ConfigError("KB-Y020", "{}: there is no value {}; there are: {}", key, number_of(value),
                    fmt::join(names, ", "));
}

}  // namespace

Config Config::with_buffer_kind(sim::BufferKind kind) const {
  check_choice("buffer_kind", kind, sim::kBufferKinds);
  return with([&](State& state) { state.overrides.buffer_kind = kind; });
}

Config Config::with_depth(int depth) const {
  if (depth < 1 || depth > kMaxDepth) {
    throw ConfigError("KB-Y020", "depth: {} not in [1, {}]", depth, kMaxDepth);
  }
  return with([&](State& state) { state.overrides.depth = depth; });
}

Config Config::with_world_size(int world_size) const {
  if (world_size < 1 || world_size > kMaxWorldSize) {
    throw ConfigError("KB-Y020", "world_size: {} not in [1, {}]", world_size, kMaxWorldSize);
  }
  return with([&](State& state) { state.overrides.world_size = world_size; });
}

Config Config::with_root(Root root) const {
  check_choice("root", root, kRootChoices);
  return with([&](State& state) { state.overrides.root = root; });
}

}  // namespace kernbench::ccl
