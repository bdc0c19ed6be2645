#pragma once

#include <cstdint>

#include "sim_engine/base/dtype.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/location.h"

namespace kernbench::sim {

// The unique name of a region: an index may be used again after the region was destroyed, but with
// a new generation.
struct RegionId {
  std::uint32_t index = 0xffffffff;
  std::uint32_t generation = 0;
  friend bool operator==(RegionId, RegionId) = default;
};

// The storage of one shard: a region in the HBM slice of a PE.
struct DeviceBuffer {
  RegionId region{};
  PeLocation home;
  Bytes address = 0;  // virtual, in the SIP's address space
  DType dtype = DType::f32;
  std::int64_t element_count = 0;
  std::int64_t first = 0;  // offset in the region; `address` is where the region begins

  Bytes bytes() const { return element_count * size_of(dtype); }
};

}  // namespace kernbench::sim
