// all_reduce of 1,024 f32 over 6 ranks on the backend `local`: the cost in a test of many ranks.
//
// Spawning the ranks, and reading every element of every rank at the end, are included, for as many
// collectives as the argument says.

#include "benches/bench/inputs.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace local_backend_benchmark {
namespace {

constexpr double kLimit = 5e-6;  // seconds for one

void local_all_reduce_of_6(benchmark::State& state) {
  const auto count = static_cast<int>(state.range(0));
  RuntimeContext torch(benches::load_topology("ring_1d_6"), {.evaluation_threads = 1});
  torch.distributed.init_process_group("local");
  const RateMeter meter;
  for (auto _ : state) {
    run_on_devices(torch, 6, [&](int) {
      Tensor x = torch.full({1024}, 1, {.dp = DPPolicy::on_one_pe()});
      for (int i = 0; i < count; ++i) torch.distributed.all_reduce(x, ReduceOp::max);
      benchmark::DoNotOptimize(x.to_vector());
    });
  }
  meter.report(state, static_cast<double>(state.iterations()) * count, 1 / kLimit);
}
BENCHMARK(local_all_reduce_of_6)
    ->ArgName("collectives")
    ->Arg(1)
    ->Arg(100)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace local_backend_benchmark

}  // namespace kernbench::micro
