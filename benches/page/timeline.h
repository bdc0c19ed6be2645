#pragma once

#include <cstddef>
#include <string>

#include "runtime/simulation/run_log.h"

namespace kernbench::benches::page {

inline constexpr std::size_t kMostDrawnRanks = 16;

// A Gantt chart: for each rank its kernels, its collectives by group, its messages and the waits of
// its program.  If there are many ranks, only the first are shown; calls that are too short to be
// seen are drawn together.
std::string timeline(const runtime::RunLog& log, Time end);

}  // namespace kernbench::benches::page
