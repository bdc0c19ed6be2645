#pragma once

#include "runtime/profiler/profile.h"

namespace kernbench::runtime {

// The critical path of the profile's time.
CriticalPath find_critical_path(const Simulation& simulation, const Profile& profile);

}  // namespace kernbench::runtime
