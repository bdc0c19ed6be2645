// CPU time of one message from rank to rank, op log on, with 6, 64 and 1,024 ranks.
//
// Limits: 0.35 us, flat (DESIGN.md 9), and 6 events.  Every rank works on one PE, so that all sends
// are between ranks.  "ring" only passes messages on to the next rank; "all_reduce" also loads,
// adds and stores each chunk, launches kernels and makes tensors.

#include "benches/bench/inputs.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace message_benchmark {
namespace {

constexpr double kLimitSeconds = 0.35e-6;
constexpr double kLimitEvents = 6;
constexpr std::int64_t kElements = 4096;

using Work = void (*)(RuntimeContext&, Tensor&);

void all_reduce(RuntimeContext& torch, Tensor& x) {
  torch.distributed.all_reduce(x);
}

// As many messages on each rank as keep the whole between 60,000 and 300,000.
void ring(RuntimeContext& torch, Tensor& x) {
  const int rounds = torch.distributed.get_world_size() > 100 ? 250 : 1000;
  const auto pass_on = [](tl::Context& tl, const tl::Pointer& pointer, int count) {
    const tl::Tensor tile = tl.load(pointer, {64}, DType::f16);
    for (int i = 0; i < count; ++i) {
      tl.send(tl::Direction::global_east, tile);
      tl.recv(tl::Direction::global_west, {64}, DType::f16);
    }
  };
  torch.launch("pass_on", pass_on, x, rounds);
}

void run_once(RuntimeContext& torch, Work work) {
  run_on_devices(torch, torch.distributed.get_world_size(), [&](int) {
    Tensor x = torch.full({1, kElements}, 1, {.dtype = DType::f16, .dp = DPPolicy::on_one_pe()});
    work(torch, x);
  });
}

std::int64_t send_count(const RuntimeContext& torch) {
  return torch.engine().op_log().count(sim::OpKind::send);
}

void cpu_per_message(benchmark::State& state, Work work, const char* topology) {
  RuntimeContext torch(benches::load_topology(topology));
  torch.distributed.init_process_group("ahbm");
  run_once(torch, work);  // queues and pools have grown
  const std::int64_t sends_before = send_count(torch);
  const std::uint64_t events_before = torch.engine().event_count();
  const double cpu_before = cpu_seconds();
  for (auto _ : state) run_once(torch, work);
  const double cpu = cpu_seconds() - cpu_before;
  const auto messages = static_cast<double>(send_count(torch) - sends_before);
  const auto events = static_cast<double>(torch.engine().event_count() - events_before);
  state.counters["us_per_message"] = cpu * 1e6 / messages;
  state.counters["over_limit"] = cpu / messages / kLimitSeconds;  // at most 1 is wanted
  state.counters["messages"] = messages / static_cast<double>(state.iterations());
  state.counters["events_per_message"] = events / messages;
  state.counters["events_over_limit"] = events / messages / kLimitEvents;
}

// The op log grows with every iteration: their number is fixed.
#define KERNBENCH_MESSAGE_BENCHMARK(work, ranks, topology, iterations)          \
  BENCHMARK_CAPTURE(cpu_per_message, work##_of_##ranks##_ranks, work, topology) \
      ->Unit(benchmark::kMillisecond)                                           \
      ->Iterations(iterations)
KERNBENCH_MESSAGE_BENCHMARK(ring, 6, "ring_1d_6", 100);
KERNBENCH_MESSAGE_BENCHMARK(ring, 64, "scale_64", 10);
KERNBENCH_MESSAGE_BENCHMARK(ring, 1024, "scale_1024", 2);
KERNBENCH_MESSAGE_BENCHMARK(all_reduce, 6, "ring_1d_6", 1000);
KERNBENCH_MESSAGE_BENCHMARK(all_reduce, 64, "scale_64", 100);
KERNBENCH_MESSAGE_BENCHMARK(all_reduce, 1024, "scale_1024", 2);

}  // namespace
}  // namespace message_benchmark

}  // namespace kernbench::micro
