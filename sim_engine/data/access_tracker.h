// Finds data races in the user's kernels: two accesses to the same elements that overlap in
// simulated time, at least one of them writing, by different kernels.  Accesses of one kernel are
// ordered by its PE's scheduler; those of two kernels that run on a PE side by side are not.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/pe_location.h"
#include "sim_engine/base/units.h"
#include "sim_engine/data/element_range.h"
#include "sim_engine/data/memory_store.h"

namespace kernbench::sim {

enum class Access : std::uint8_t { read, write };

// Who accesses.  `operation` is the name that the user knows, e.g. "tl.load"; it must outlive the
// access.  `kernel` tells apart those that run on a PE.
struct AccessOrigin {
  std::string_view operation;
  PeLocation pe;
  std::uint64_t kernel = 0;

  bool is_same_kernel(const AccessOrigin& other) const {
    return pe == other.pe && kernel == other.kernel;
  }
};

// An access in flight.
struct AccessId {
  std::uint32_t slot = 0xffffffff;
  std::uint32_t generation = 0;
};

class AccessTracker {
 public:
  // An access to elements of the region starts now.  DeviceError KB-M030 if it races with one in
  // flight; then it is not recorded.
  AccessId begin(RegionId region, const ElementRange& elements, Access access,
                 const AccessOrigin& origin, Time now);

  // The access has ended.  Once only.
  void end(AccessId id);

  // Forgets all accesses, for the end of a run that failed.  Their ids are void.
  void clear();

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct InFlight {
    RegionId region;
    ElementRange elements;
    Access access = Access::read;
    AccessOrigin origin;
    Time since{0};
    std::uint32_t generation = 0;
    std::uint32_t previous = kNone;  // of the same region; or, when free, unused
    std::uint32_t next = kNone;      // of the same region; or the next free one
  };

  static bool races(const InFlight& a, const InFlight& b);
  [[noreturn]] static void report(const InFlight& earlier, const InFlight& later);
  AccessId insert(const InFlight& access);

  std::vector<InFlight> slots_;
  std::uint32_t free_ = kNone;
  std::vector<std::uint32_t> first_of_region_;
};

}  // namespace kernbench::sim
