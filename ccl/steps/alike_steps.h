// Compares the steps of two members of a group, one of which may stand for the other.

#pragma once

#include <functional>

#include "ccl/steps/step.h"

namespace kernbench::ccl {

// True if the lists have the same steps: equally many elements in shards that lie alike, received
// from and sent to the same nodes as each member sees them, which `are_same` decides.
bool are_alike(const StepList& one, const StepList& other,
               const std::function<bool(int of_one, int of_other)>& are_same);

}  // namespace kernbench::ccl
