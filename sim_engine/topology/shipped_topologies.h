// The topologies that kernbench is shipped with, as they were when it was built.

#pragma once

#include <span>
#include <string_view>

#include "sim_engine/base/embedded_file.h"

namespace kernbench {

using ShippedTopology = EmbeddedFile;

std::span<const ShippedTopology> shipped_topologies();

// Returns nullptr if no shipped topology has that name.
inline const ShippedTopology* find_shipped_topology(std::string_view name) {
  return find_embedded_file(shipped_topologies(), name);
}

}  // namespace kernbench
