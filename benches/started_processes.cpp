#include "benches/started_processes.h"

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

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

int own_process_number() {
  return number_in({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, 0);
}

}  // namespace kernbench::benches
