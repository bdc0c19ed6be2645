// Why events happened when they did (cause_log.h).

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim_engine/base/units.h"

namespace kernbench::sim {

// The kind of time that passes between a cause and its effect.
enum class Cause : std::uint8_t {
  host,     // the host issues a launch or a collective
  launch,   // a launch, or the news of its end, is on its way
  issue,    // a PE_CPU issues commands, a PE_SCHEDULER hands one to its unit
  busy,     // a unit of the PE serves others
  compute,  // PE_MATH or PE_GEMM computes
  dma,      // PE_DMA sets up a descriptor, PE_MMU translates, PE_IPCQ pushes or pops
  queue,    // a link serves others
  latency,  // of links
  bytes,    // over the slowest link
  hbm,      // latency of HBM, or bytes where its port is the slowest link
  credit,   // a credit, or the news of a posted receive, is on its way back
  poll,     // until an end of a queue, or a rank, looks again
  tcm,      // operands and results of PE_MATH or PE_GEMM, whose ports are slower than it computes
  other
};

inline constexpr std::size_t kCauseCount = 14;

// "host issue", "launch", ...
std::string_view name_of(Cause cause);

// A moment of the log of causes.
enum class CauseId : std::uint32_t { begin = 0 };

// A part of the longest chain of causes.
struct CauseEdge {
  Cause why = Cause::other;
  std::uint32_t place = 0;
  Time start{0};
  Time end{0};
  Time length() const { return end - start; }
};

}  // namespace kernbench::sim
