// HTA's temporal breakdown of a trace that PyTorch's profiler could have written, by its documented
// rules: https://hta.readthedocs.io, "Temporal Breakdown".

#pragma once

#include <string>
#include <vector>

#include "sim_engine/base/units.h"

namespace kernbench::test {

// The package itself is not at hand.  It works like this: events with a stream are the device's;
// their time goes from the start of the first to the end of the last; what none covers is idle;
// names with "ncclKernel" are communication, with "Memcpy" or "Memset" memory, all others
// computation; what is neither idle nor computation is non-compute time.
struct TemporalBreakdown {
  int rank = -1;
  Time idle{0};
  Time compute{0};
  Time non_compute{0};
  Time kernel_time{0};
  Time overlapped{0};  // its other analysis: computation while communication is under way
};

TemporalBreakdown temporal_breakdown_of(const std::string& trace);

}  // namespace kernbench::test
