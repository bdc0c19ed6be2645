// The regions that a kernel must not write while it runs.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim_engine/data/region_id.h"

namespace kernbench::tl {

// Regions that an operation under way reads.  Mostly empty: a launch fills it, and its kernels ask.
class StoreGuard {
 public:
  // `reader` is told to whoever writes: "tensor 'x', which all_gather#0 at ddp.cpp:41 still reads".
  void protect(sim::RegionId region, std::string reader) {
    regions_.emplace_back(region, std::move(reader));
  }
  bool empty() const { return regions_.empty(); }

  // nullptr: the region may be written.
  const std::string* reader_of(sim::RegionId region) const {
    for (const auto& [guarded, reader] : regions_) {
      if (guarded == region) return &reader;
    }
    return nullptr;
  }

 private:
  std::vector<std::pair<sim::RegionId, std::string>> regions_;
};

}  // namespace kernbench::tl
