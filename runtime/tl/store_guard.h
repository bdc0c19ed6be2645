// Protects elements that a kernel must not write while it runs.

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim_engine/values/device_buffer.h"
#include "sim_engine/values/element_range.h"

namespace kernbench::tl {

// The elements that operations under way read or write.  A launch fills the guard, and its kernels
// check their stores against it; mostly it is empty.
class StoreGuard {
 public:
  // `user` goes into the error of a kernel that writes: "tensor 'x', which all_gather#0 at
  // ddp.cpp:41 still reads".
  void protect(std::span<const sim::DeviceBuffer> buffers, std::string user) {
    for (const sim::DeviceBuffer& buffer : buffers) guarded_.push_back({buffer, users_.size()});
    users_.push_back(std::move(user));
  }
  bool empty() const { return guarded_.empty(); }

  // Returns nullptr if these elements of the region may be written.
  const std::string* find_user(sim::RegionId region, const sim::ElementRange& elements) const {
    for (const auto& [buffer, user] : guarded_) {
      if (buffer.region != region) continue;
      if (overlap({buffer.first, buffer.element_count}, elements)) return &users_[user];
    }
    return nullptr;
  }

 private:
  struct Guarded {
    sim::DeviceBuffer buffer;
    std::size_t user = 0;  // in users_
  };
  std::vector<Guarded> guarded_;
  std::vector<std::string> users_;
};

}  // namespace kernbench::tl
