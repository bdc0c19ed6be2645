#pragma once

#include "sim_engine/base/error.h"

namespace kernbench::runtime {

class Simulation;

// Makes the error for a run in which no event is left and somebody waits (KB-D001): it lists every
// waiting rank and kernel, what it waits for and since when, and a cycle of waits if there is one.
DeadlockError deadlock_error(Simulation& simulation);

}  // namespace kernbench::runtime
