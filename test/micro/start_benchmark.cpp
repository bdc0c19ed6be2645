// From nothing to the first number of an all_reduce over 6 ranks.
//
// Limit: 0.1 s (DESIGN.md 9), for a process as a user starts it.

#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>

#include "benches/bench/inputs.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

extern char** environ;

namespace kernbench::micro {

namespace start_benchmark {
namespace {

constexpr double kLimitSeconds = 0.1;

// Time over the limit; at most 1 is wanted.
void report_seconds(benchmark::State& state, double seconds) {
  state.counters["seconds_over_limit"] =
      benchmark::Counter(seconds / kLimitSeconds, benchmark::Counter::kAvgIterations);
}

void start_to_first_result_in_process(benchmark::State& state) {
  double seconds = 0;
  for (auto _ : state) {
    seconds += measure_seconds([] {
      RuntimeContext torch(benches::load_topology("ring_1d_6"));
      torch.distributed.init_process_group("ahbm");
      run_on_devices(torch, torch.distributed.get_world_size(), [&](int rank) {
        Tensor x = torch.full(
            {1, 4096}, rank,
            {.dtype = DType::f16, .dp = {.cube = Shard::column_wise, .pe = Shard::column_wise}});
        torch.distributed.all_reduce(x);
        if (x.at({0, 0}) != 15) std::abort();
      });
    });
  }
  report_seconds(state, seconds);
}
BENCHMARK(start_to_first_result_in_process)->Unit(benchmark::kMillisecond);

void run_program() {
  const char* const argv[] = {"kernbench",  "run",       "--bench", "ccl-allreduce",
                              "--topology", "ring_1d_6", "--set",   "n_elem=1024",
                              "--json",     "/dev/null", nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", 1, 0);
  pid_t child = 0;
  const int error = posix_spawn(&child, KERNBENCH_PROGRAM, &actions, nullptr,
                                const_cast<char* const*>(argv), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) < 0 || status != 0) std::abort();
}

void start_to_first_result_of_the_program(benchmark::State& state) {
  double seconds = 0;
  for (auto _ : state) seconds += measure_seconds(run_program);
  report_seconds(state, seconds);
}
BENCHMARK(start_to_first_result_of_the_program)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace start_benchmark

}  // namespace kernbench::micro
