#pragma once

#include <cstdint>

namespace kernbench::sim {

// The unique name of a region: an index may be used again after the region was destroyed, but with
// a new generation.
struct RegionId {
  std::uint32_t index = 0xffffffff;
  std::uint32_t generation = 0;
  friend bool operator==(RegionId, RegionId) = default;
};

}  // namespace kernbench::sim
