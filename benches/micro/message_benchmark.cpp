// CPU time of one message from rank to rank, op log on, with 6, 64 and 1,024 ranks.
//
// Limit: 0.35 us, flat (DESIGN.md 9).  Every rank holds a copy on one PE, so that all sends of the
// collective are between ranks.

#include <array>
#include <string>

#include "benches/inputs.h"
#include "benches/micro/micro.h"
#include "runtime/context/runtime_context.h"

namespace kernbench::micro {

namespace {

constexpr double kLimitSeconds = 0.35e-6;
constexpr std::int64_t kElements = 4096;

std::int64_t send_count(const RuntimeContext& torch) {
  return torch.engine().op_log().count(sim::OpKind::send);
}

void run_once(RuntimeContext& torch) {
  torch.multiprocessing.spawn(
      [&](int rank) {
        torch.ahbm.set_device(rank);
        Tensor x =
            torch.full({1, kElements}, 1, {.dtype = DType::f16, .dp = DPPolicy::replicated()});
        torch.distributed.all_reduce(x);
      },
      {}, torch.distributed.get_world_size());
}

void cpu_per_message(benchmark::State& state, const char* topology) {
  RuntimeContext torch(benches::load_topology(topology));
  torch.distributed.init_process_group("ahbm");
  run_once(torch);  // queues and pools have grown
  const std::int64_t sends_before = send_count(torch);
  const std::uint64_t events_before = torch.engine().event_count();
  double cpu = 0;
  for (auto _ : state) {
    const double start = cpu_seconds();
    run_once(torch);
    cpu += cpu_seconds() - start;
  }
  const auto messages = static_cast<double>(send_count(torch) - sends_before);
  const auto events = static_cast<double>(torch.engine().event_count() - events_before);
  state.counters["us_per_message"] = cpu * 1e6 / messages;
  state.counters["over_limit"] = cpu / messages / kLimitSeconds;  // at most 1 is wanted
  state.counters["messages"] = messages / static_cast<double>(state.iterations());
  state.counters["events_per_message"] = events / messages;
}
BENCHMARK_CAPTURE(cpu_per_message, 6_ranks, "ring_1d_6")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cpu_per_message, 64_ranks, "scale_64")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cpu_per_message, 1024_ranks, "scale_1024")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace

}  // namespace kernbench::micro
