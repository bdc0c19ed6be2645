// All_reduces by the default algorithm: how many events, how fast.
//
// all_reduce_of_6: of 49,152 f16 per cube over 6 SIPs in a ring.
// "timing only" keeps no values; "op log" keeps what an evaluation needs; "values" also reads every
// element of every rank, that is, evaluates.

#include "benches/bench/inputs.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace all_reduce_benchmark {
namespace {

enum Data : std::int64_t { timing_only, op_log, values };

constexpr std::int64_t kElements = 49'152;
constexpr DPPolicy kPartialCubes{.cube = Shard::partial, .pe = Shard::column_wise};

void run_once(RuntimeContext& torch, bool reads) {
  std::vector<Tensor> tensors(static_cast<std::size_t>(torch.distributed.get_world_size()));
  run_on_devices(torch, torch.distributed.get_world_size(), [&](int rank) {
    Tensor x = torch.full({1, kElements}, 1, {.dtype = DType::f16, .dp = kPartialCubes});
    torch.distributed.all_reduce(x);
    tensors[static_cast<std::size_t>(rank)] = x;
  });
  for (std::size_t i = 0; reads && i < tensors.size(); ++i) {
    for (std::size_t shard = 0; shard < tensors[i].shards().size(); ++shard) {
      benchmark::DoNotOptimize(tensors[i].shard_to_vector(shard));
    }
  }
}

void all_reduce_of_6(benchmark::State& state) {
  const std::int64_t data = state.range(0);
  RuntimeContext torch(benches::load_topology("ring_1d_6"), {.data = data != timing_only});
  torch.distributed.init_process_group("ahbm");
  run_once(torch, data == values);  // queues and pools have grown
  const std::uint64_t events_before = torch.engine().event_count();
  const Time before = torch.engine().now();
  const RateMeter meter;
  for (auto _ : state) run_once(torch, data == values);
  const auto runs = static_cast<double>(state.iterations());
  const auto events = static_cast<double>(torch.engine().event_count() - events_before);
  meter.report(state, events, 6e6);
  state.counters["events"] = events / runs;
  state.counters["simulated_us"] = to_ns(torch.engine().now() - before) / 1e3 / runs;
}
BENCHMARK(all_reduce_of_6)
    ->ArgName("data")
    ->Arg(timing_only)
    ->Arg(op_log)
    ->Arg(values)
    ->Unit(benchmark::kMillisecond);

// Reduces 1 MiB over 1,024 SIPs, without values.  Limit: a second of CPU.
void all_reduce_of_1024(benchmark::State& state) {
  constexpr double kLimitSeconds = 1;
  constexpr std::int64_t kMebibyte = 262'144;  // of f32
  RuntimeContext torch(benches::load_topology("scale_1024"), {.data = false});
  torch.distributed.init_process_group("ahbm");
  const int ranks = torch.distributed.get_world_size();
  const auto run = [&] {
    run_on_devices(torch, ranks, [&](int) {
      constexpr DPPolicy kSharded{.cube = Shard::column_wise, .pe = Shard::column_wise};
      torch.distributed.all_reduce(
          torch.empty({1, kMebibyte}, {.dtype = DType::f32, .dp = kSharded}));
    });
  };
  run();  // queues and pools have grown
  const auto sends = [&] {
    return static_cast<double>(torch.engine().op_log().count(sim::OpKind::send));
  };
  const double sends_before = sends();
  const double cpu_before = cpu_seconds();
  for (auto _ : state) run();
  const auto runs = static_cast<double>(state.iterations());
  const double cpu = (cpu_seconds() - cpu_before) / runs;
  state.counters["cpu_s"] = cpu;
  state.counters["over_limit"] = cpu / kLimitSeconds;  // at most 1 is wanted
  state.counters["messages"] = (sends() - sends_before) / runs;
}
BENCHMARK(all_reduce_of_1024)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace all_reduce_benchmark

}  // namespace kernbench::micro
