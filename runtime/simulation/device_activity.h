#pragma once

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

// How long a device has been active.
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
  friend bool operator==(const DeviceActivity&, const DeviceActivity&) = default;
};

}  // namespace kernbench::runtime
