#include "benches/bench/started_processes.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "benches/bench/process_team.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches {

namespace {

// The first of the variables that is there, as a number, else `otherwise`.
int number_in(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* const name : variables) {
    const char* const text = std::getenv(name);
    if (text == nullptr) continue;
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), otherwise);
    return otherwise;
  }
  return otherwise;
}

}  // namespace

int started_processes() {
  return number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}, 1);
}

void refuse_to_start(std::string_view why, std::string_view remedy) {
  const int own_number = number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
  if (own_number > 0) throw Dismissed{.exit_code = static_cast<int>(ExitCode::usage)};
  throw UsageError("KB-U015",
                   "started as one of {} processes, but {}: each would do all of the work and "
                   "write the same files\n  {}, or start it alone",
                   started_processes(), why, remedy);
}

}  // namespace kernbench::benches
