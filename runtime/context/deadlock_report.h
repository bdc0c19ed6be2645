#pragma once

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

class Simulation;

// No event is left and somebody waits: every waiting rank and kernel with what it waits for and
// since when, and the cycle of waits if there is one (KB-D001).
DeadlockError deadlock_error(Simulation& simulation);

}  // namespace kernbench::runtime
