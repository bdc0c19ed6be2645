// As how many processes this program was started.

#pragma once

namespace kernbench::benches {

// What mpirun says in the environment: Open MPI, MPICH and its kin; 1 without any.
int started_processes();

}  // namespace kernbench::benches
