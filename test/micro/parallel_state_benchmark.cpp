// CPU time of Megatron's initialize_model_parallel with tp 8, pp 2, cp 2 and ep 2, for all ranks:
// once before spawn(), or by each rank in it (the spawn included).
//
// Limit: 10 ms for 64 ranks, so that a test of many ranks does not wait for its groups.

#include "benches/bench/inputs.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"
#include "tp/parallel_state.h"

namespace kernbench::micro {

namespace parallel_state_benchmark {
namespace {

constexpr double kLimitSeconds = 10e-3;

void initialize(RuntimeContext& torch) {
  tp::initialize_model_parallel(torch, {.tensor_model_parallel_size = 8,
                                        .pipeline_model_parallel_size = 2,
                                        .context_parallel_size = 2,
                                        .expert_model_parallel_size = 2});
}

void before_spawn(RuntimeContext& torch) {
  initialize(torch);
}

void by_each_rank(RuntimeContext& torch) {
  torch.multiprocessing.spawn([&](int) { initialize(torch); }, {},
                              torch.distributed.get_world_size());
}

void model_parallel(benchmark::State& state, void (*run)(RuntimeContext&), const char* topology) {
  double seconds = 0;
  for (auto _ : state) {
    RuntimeContext torch(benches::load_topology(topology), {.data = false});
    torch.distributed.init_process_group("ahbm");
    const double before = cpu_seconds();
    run(torch);
    const double took = cpu_seconds() - before;
    state.SetIterationTime(took);
    seconds += took;
  }
  const double mean = seconds / static_cast<double>(state.iterations());
  state.counters["over_limit"] = mean / kLimitSeconds;  // at most 1 is wanted, of 64 ranks
}

// Most of an iteration is the context: their number is fixed.
#define KERNBENCH_MODEL_PARALLEL_BENCHMARK(run, ranks, topology)             \
  BENCHMARK_CAPTURE(model_parallel, run##_of_##ranks##_ranks, run, topology) \
      ->Unit(benchmark::kMillisecond)                                        \
      ->UseManualTime()                                                      \
      ->Iterations(20)
KERNBENCH_MODEL_PARALLEL_BENCHMARK(before_spawn, 64, "scale_64");
KERNBENCH_MODEL_PARALLEL_BENCHMARK(by_each_rank, 64, "scale_64");
KERNBENCH_MODEL_PARALLEL_BENCHMARK(before_spawn, 1024, "scale_1024");
KERNBENCH_MODEL_PARALLEL_BENCHMARK(by_each_rank, 1024, "scale_1024");

}  // namespace
}  // namespace parallel_state_benchmark

}  // namespace kernbench::micro
