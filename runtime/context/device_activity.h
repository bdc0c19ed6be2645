#pragma once

#include "sim_engine/base/units.h"

namespace kernbench::runtime {

// For how long, of a device.
struct DeviceActivity {
  Time computing{0};      // a kernel of the program ran on at least one of its PEs
  Time communicating{0};  // a collective or a message of its rank was under way
  Time overlapped{0};     // both

  // Communication that no kernel of the program hides.
  Time exposed() const { return communicating - overlapped; }
  // At least one of the two.
  Time busy() const { return computing + exposed(); }

  friend DeviceActivity operator-(const DeviceActivity& a, const DeviceActivity& b) {
    return {a.computing - b.computing, a.communicating - b.communicating,
            a.overlapped - b.overlapped};
  }
  friend bool operator==(const DeviceActivity&, const DeviceActivity&) = default;
};

}  // namespace kernbench::runtime
