// Process teams of a program that was built without MPI: there are none.

#include "benches/bench/process_team.h"
#include "benches/bench/started_processes.h"

namespace kernbench::benches {

std::unique_ptr<ProcessTeam> join_process_team() {
  if (started_processes() < 2) return nullptr;
  refuse_to_start("built without MPI", "build it with -DKERNBENCH_WITH_MPI=ON");
}

}  // namespace kernbench::benches
