// Finds data races in the user's kernels: two accesses to the same elements that overlap in
// simulated time, at least one of them writing, by different kernels.  A PE's scheduler orders the
// accesses of one kernel, but not those of two kernels that run on the PE at the same time.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim_engine/base/units.h"
#include "sim_engine/topology/pe_location.h"
#include "sim_engine/values/element_range.h"
#include "sim_engine/values/memory_store.h"

namespace kernbench::sim {

enum class Access : std::uint8_t { read, write };

// Who accesses.  `operation` is the user's name for it, e.g. "tl.load"; it must outlive the access.
// `kernel` distinguishes the kernels that run on one PE.
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
  // An access to elements of the region starts now.  Throws DeviceError KB-M030, and does not
  // record the access, if it races with one in flight.
  AccessId begin(RegionId region, const ElementRange& elements, Access access,
                 const AccessOrigin& origin, Time now);

  // The access has ended.  Call it once per access.
  void end(AccessId id);

  // Drops all accesses, after a run that failed.  Their ids become invalid.
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
