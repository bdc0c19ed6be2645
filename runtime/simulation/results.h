// A run leaves results of each kernel, of each device and of each algorithm of collectives.

#pragma once

#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"
#include "sim_engine/components/use_and_waits.h"
#include "sim_engine/topology/location.h"

namespace kernbench::runtime {

// The record of a kernel that has run on a PE.
struct KernelResult {
  std::uint64_t operation = 0;  // the launch or the collective that it belongs to
  sim::PeLocation pe;
  Time start{0};
  Time end{0};
  Bytes loaded = 0;          // from HBM
  Bytes stored = 0;          // to HBM
  Time composite_window{0};  // from the first composite's start to the last one's end
  sim::Waits waits;          // of the kernel and its commands
};

// The time for which a device has been active.
struct DeviceActivity {
  Time computing{0};      // a kernel of the program ran on at least one of its PEs
  Time communicating{0};  // a collective or a message of its rank was under way
  Time overlapped{0};     // both at the same time

  // Time of communication that no kernel of the program overlaps.
  Time exposed() const { return communicating - overlapped; }
  // Time in which a kernel ran or a communication was under way.
  Time busy() const { return computing + exposed(); }

  friend DeviceActivity operator-(const DeviceActivity& a, const DeviceActivity& b) {
    return {a.computing - b.computing, a.communicating - b.communicating,
            a.overlapped - b.overlapped};
  }
  DeviceActivity& operator+=(const DeviceActivity& other) {
    computing += other.computing;
    communicating += other.communicating;
    overlapped += other.overlapped;
    return *this;
  }
  friend bool operator==(const DeviceActivity&, const DeviceActivity&) = default;
};

// Counts how often the collectives of a run have used an algorithm.
struct AlgorithmUse {
  std::string_view collective;  // "all_reduce", "send", ...; a literal, as is `algorithm`
  std::string_view algorithm;
  bool is_configured = false;  // true if the backend's settings (ccl.yaml) ask for it
  std::int64_t calls = 0;      // summed over all ranks
};

}  // namespace kernbench::runtime
