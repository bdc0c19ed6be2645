#pragma once

#include <cstdint>

#include "sim_engine/base/units.h"
#include "sim_engine/components/waits.h"
#include "sim_engine/topology/pe_location.h"

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

}  // namespace kernbench::runtime
