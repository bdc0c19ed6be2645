#pragma once

#include <cstdint>

namespace kernbench::runtime {

// How much a trace shows.  Each level has what those before it have.
enum class TraceLevel : std::uint8_t {
  ranks,    // what the programs of ranks did, and their collectives and messages
  kernels,  // kernels too, a span for each launch on a device
  units     // the device's units too, a track for each, and its messages as arrows
};

}  // namespace kernbench::runtime
