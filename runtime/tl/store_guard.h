// The elements that a kernel must not write while it runs.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim_engine/components/device_buffer.h"
#include "sim_engine/data/element_range.h"
#include "sim_engine/data/region_id.h"

namespace kernbench::tl {

// Elements that an operation under way reads.  Mostly empty: a launch fills it, and its kernels
// ask.
class StoreGuard {
 public:
  // `reader` is told to whoever writes: "tensor 'x', which all_gather#0 at ddp.cpp:41 still reads".
  void protect(const sim::DeviceBuffer& buffer, std::string reader) {
    guarded_.emplace_back(buffer, std::move(reader));
  }
  bool empty() const { return guarded_.empty(); }

  // nullptr: these elements of the region may be written.
  const std::string* reader_of(sim::RegionId region, const sim::ElementRange& elements) const {
    for (const auto& [buffer, reader] : guarded_) {
      if (buffer.region != region) continue;
      if (overlap({buffer.first, buffer.element_count}, elements)) return &reader;
    }
    return nullptr;
  }

 private:
  std::vector<std::pair<sim::DeviceBuffer, std::string>> guarded_;
};

}  // namespace kernbench::tl
