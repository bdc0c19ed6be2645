// As how many processes this program was started.

#pragma once

namespace kernbench::benches {

// What mpirun says in the environment: Open MPI, MPICH and its kin; 1 without any.
int started_processes();
// Which of them it is, from 0.
int own_process_number();

}  // namespace kernbench::benches
