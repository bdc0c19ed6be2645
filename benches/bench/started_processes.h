// The number of processes that this program was started as.

#pragma once

#include <string_view>

namespace kernbench::benches {

// Read from the environment that mpirun sets (Open MPI, MPICH and its derivatives); 1 without
// mpirun.
int started_processes();

// Refuses several processes if they cannot communicate: throws UsageError KB-U015 in the first of
// them, and Dismissed in the others.
[[noreturn]] void refuse_to_start(std::string_view why, std::string_view remedy);

}  // namespace kernbench::benches
