#include "ccl/core/config_entries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ccl/core/config.h"
#include "sim_engine/base/error.h"
#include "sim_engine/config/config_errors.h"

namespace kernbench::ccl {

namespace {

// True if `defaults.algorithm` may name it: an all_reduce, or what only a bench can run.
bool is_a_default(const Algorithm& algorithm) {
  return algorithm.kernel != nullptr || serves(algorithm, distributed::CollectiveKind::all_reduce);
}

}  // namespace

const Algorithm* find_default(std::string_view name) {
  const Algorithm* found = find_algorithm(name);
  return found != nullptr && is_a_default(*found) ? found : nullptr;
}

namespace {

std::vector<std::string_view> kernel_names() {
  std::vector<std::string_view> names;
  for (const Algorithm* algorithm : algorithms()) {
    if (is_a_default(*algorithm)) names.push_back(algorithm->name);
  }
  return names;
}

void add_name(std::vector<std::string_view>& names, std::string_view name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

// Returns the algorithm that an entry's name misspells; empty if it is a name of its own, such as
// a longer one, ring_allreduce_hbm.
std::string_view meant_by(const AlgorithmEntry& entry, std::string_view chosen) {
  if (entry.name == chosen || find_default(entry.name) != nullptr) return {};
  const std::string_view meant = nearest(entry.name, kernel_names());
  return entry.name.starts_with(meant) ? std::string_view() : meant;
}

}  // namespace

std::string unknown_algorithm(std::string_view name, const std::vector<std::string_view>& known) {
  const std::string_view meant = nearest(name, known);
  const std::string unknown = fmt::format("unknown algorithm {}", in_quotes(name));
  if (!meant.empty()) return fmt::format("{}; did you mean {}?", unknown, in_quotes(meant));
  return fmt::format("{}; there are: {}", unknown, fmt::join(known, ", "));
}

std::vector<std::string_view> algorithm_names(const std::vector<AlgorithmEntry>& entries) {
  std::vector<std::string_view> names = kernel_names();
  for (const AlgorithmEntry& entry : entries) add_name(names, entry.name);
  add_name(names, kAuto);
  return names;
}

std::vector<AlgorithmEntry> parse_entries(YamlMap map, const Settings& defaults,
                                          std::string_view chosen) {
  std::vector<AlgorithmEntry> entries;
  for (const YamlNode* node : map.entries()) {
    YamlMap entry = map.map(*node);
    AlgorithmEntry& added = entries.emplace_back();
    added.name = node->key;
    added.kernel = entry.has("kernel") ? entry.text("kernel", kDefaultAlgorithm) : added.name;
    added.settings = read_settings(entry, defaults);
    if (added.name == kAuto) {
      entry.fail("KB-Y040", "'auto' is no algorithm of its own; set what it runs with in defaults");
    } else if (find_default(added.kernel) == nullptr) {
      entry.fail("KB-Y040", unknown_algorithm(added.kernel, kernel_names()));
    } else if (const std::string_view meant = meant_by(added, chosen); !meant.empty()) {
      entry.fail("KB-Y040", fmt::format("nothing chooses an algorithm {}; did you mean '{}'?",
                                        in_quotes(added.name), meant));
    } else if (added.settings.conflicts && added.name == chosen) {
      entry.fail("KB-Y042", kRanksConflict);
    }
  }
  return entries;
}

}  // namespace kernbench::ccl
