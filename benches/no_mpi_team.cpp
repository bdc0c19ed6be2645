// Process teams of a program that was built without MPI: there are none.

#include <fmt/format.h>

#include "benches/process_team.h"
#include "benches/started_processes.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

std::unique_ptr<ProcessTeam> join_process_team() {
  const int count = started_processes();
  if (count < 2) return nullptr;
  if (own_process_number() > 0) throw Dismissed{};  // the first one says why
  throw UsageError("KB-U015",
                   fmt::format("started as one of {} processes, but built without MPI: each would "
                               "do all of the work and write the same files\n  build it with "
                               "-DKERNBENCH_WITH_MPI=ON, or start it alone",
                               count));
}

}  // namespace kernbench::benches
