#pragma once

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

// The critical path of the profile's time.
CriticalPath critical_path_of(const Simulation& simulation, const Profile& profile);

}  // namespace kernbench::runtime
