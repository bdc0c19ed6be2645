// How long a unit was busy with kernels: a PE's CPU, a DMA channel, an array, a link, a memory's
// port.

#pragma once

#include <string>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

struct UnitUse {
  std::string unit;  // "sip0.cube0.pe3.gemm", "sip1.link.east"; "" if no unit was busy at all
  Time busy{0};
  Time kernel_time{0};  // in which at least one kernel ran

  // busy / kernel_time: the utilization of the unit.  The kernels cannot be faster than this unit:
  // at 1 only a faster unit would help; at a small share, latencies and waiting take the time.
  double share() const {
    if (kernel_time == Time{0}) return 0;
    return static_cast<double>(busy.count()) / static_cast<double>(kernel_time.count());
  }
};

}  // namespace kernbench::sim
