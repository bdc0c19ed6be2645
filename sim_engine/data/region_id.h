#pragma once

#include <cstdint>

namespace kernbench::sim {

// Names a region for good: the number of a destroyed region is used again, with a new generation.
struct RegionId {
  std::uint32_t index = 0xffffffff;
  std::uint32_t generation = 0;
  friend bool operator==(RegionId, RegionId) = default;
};

}  // namespace kernbench::sim
