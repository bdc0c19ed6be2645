// As how many processes this program was started.

#pragma once

#include <string_view>

namespace kernbench::benches {

// What mpirun says in the environment: Open MPI, MPICH and its kin; 1 without any.
int started_processes();

// They cannot talk to each other: throws UsageError KB-U015 in the first of them, and Dismissed in
// the others.
[[noreturn]] void refuse_to_start(std::string_view why, std::string_view remedy);

}  // namespace kernbench::benches
