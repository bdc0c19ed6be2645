// Sums over ranks as integers (Reproducible::ranks).

#pragma once

#include <functional>

#include "runtime/distributed/backend.h"
#include "runtime/simulation/simulation.h"

namespace kernbench::distributed {

// Runs the calling rank's part of an all_reduce of `ranks` members that adds, as
// Communicator::run() does: kernels and two collectives, of the call's operation and of the one
// behind it, which must be free.  `before_sum` gets the second one before it runs.
void run_in_fixed_point(runtime::Simulation& simulation, Communicator& communicator,
                        const CollectiveCall& call, int ranks,
                        const std::function<void(const CollectiveCall&)>& before_sum);

}  // namespace kernbench::distributed
