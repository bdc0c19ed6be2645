#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/timed_parts.h"

namespace kernbench::benches::page {

inline constexpr std::size_t kMostDrawnRanks = 16;

// A Gantt chart: for each rank its kernels, its collectives by group, its messages and the waits of
// its program.  If there are many ranks, only the first are shown; calls that are too short to be
// seen are drawn together.  Time is that of the parts (TimeAxis).
std::string timeline(const runtime::RunLog& log, std::span<const runtime::TimedPart> parts);

}  // namespace kernbench::benches::page
