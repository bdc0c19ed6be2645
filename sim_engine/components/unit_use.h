// How long a unit served kernels: a PE's CPU, a DMA channel, an array, a link, a port of a memory.

#pragma once

#include <string>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

struct UnitUse {
  std::string unit;  // "sip0.cube0.pe3.gemm", "sip1.link.east"; "" if no unit was busy at all
  Time busy{0};
  Time kernel_time{0};  // in which any kernel ran

  // busy / kernel_time: for so long the unit was the bottleneck.  The kernels cannot be faster than
  // this unit; at 1 only a faster one would help, and at a small share it is not throughput but
  // latencies and waiting that take the time.
  double share() const {
    if (kernel_time == Time{0}) return 0;
    return static_cast<double>(busy.count()) / static_cast<double>(kernel_time.count());
  }
};

}  // namespace kernbench::sim
