#pragma once

#include <vector>

#include "runtime/simulation/run_log.h"
#include "runtime/simulation/timed_parts.h"

namespace kernbench::runtime {

// For each span of the log, how much later it could end without a later end of the part of the run
// in which it ends; of what is no kernel, collective or message, or ends in no part, zero.
//
// A backward pass over the program's operations: what begins on a device after an operation has
// ended, or is issued after its host knows that, waits for it; a collective begins when its last
// rank calls, and is late for all of its ranks.  Lengths of operations and launches stay.  Where
// two operations of a device have nothing to do with each other, the true slack is larger.
std::vector<Time> compute_slacks(const RunLog& log, const std::vector<TimedPart>& parts);

}  // namespace kernbench::runtime
