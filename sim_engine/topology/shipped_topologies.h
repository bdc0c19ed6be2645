// The topologies that kernbench is shipped with, as they were when it was built.

#pragma once

#include <span>
#include <string_view>

namespace kernbench {

struct ShippedTopology {
  std::string_view name;  // "default" is topologies/default.yaml
  std::string_view text;
};

std::span<const ShippedTopology> shipped_topologies();

// Returns nullptr if no shipped topology has that name.
const ShippedTopology* find_shipped_topology(std::string_view name);

}  // namespace kernbench
