// The entries under `algorithms` of ccl.yaml, and the names that choose an algorithm of all_reduce.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ccl/core/algorithm.h"
#include "ccl/core/config_settings.h"

namespace kernbench::ccl {

inline constexpr std::string_view kDefaultAlgorithm = "intercube_allreduce";

struct AlgorithmEntry {
  std::string name;
  std::string kernel;
  Settings settings;
};

// The algorithm of that name that `defaults.algorithm` may name: an all_reduce, or what only a
// bench can run; nullptr if there is none.
const Algorithm* find_default(std::string_view name);

// The names that `defaults.algorithm` accepts: a kernel, an entry, or auto.
std::vector<std::string_view> algorithm_names(const std::vector<AlgorithmEntry>& entries);

// "unknown algorithm 'x'; there are: ..."
std::string unknown_algorithm(std::string_view name, const std::vector<std::string_view>& known);

// Reads the entries, of which the one named `chosen` is used.
std::vector<AlgorithmEntry> parse_entries(YamlMap map, const Settings& defaults,
                                          std::string_view chosen);

}  // namespace kernbench::ccl
