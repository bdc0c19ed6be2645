// The host's cost of groups of ranks: new_group(), and a collective of a group.
//
// Goal: a program whose ranks make hundreds of groups, as in tensor parallelism, starts at once.
// "new_group" is per call, of which every rank makes one for each group; the collectives are per
// rank.

#include <numeric>

#include "benches/bench/inputs.h"
#include "runtime/torch/run_ranks.h"
#include "runtime/torch/runtime_context.h"
#include "test/micro/micro.h"

namespace kernbench::micro {

namespace group_benchmark {
namespace {

Topology make_grid(int sips) {
  Topology topology = benches::load_topology("scale_64");
  topology.system.h = 8;
  topology.system.w = sips / 8;
  topology.system.sip_count = sips;
  return topology;
}

std::vector<int> consecutive(int first, int count) {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), first);
  return ranks;
}

// Every rank calls for all groups, of `members` consecutive ranks each.
void new_group(benchmark::State& state) {
  constexpr int kGroups = 100;
  const int ranks = 64;
  const auto members = static_cast<int>(state.range(0));
  RuntimeContext torch(make_grid(ranks));
  torch.distributed.init_process_group("ahbm");
  const double before = cpu_seconds();
  for (auto _ : state) {
    run_ranks(torch, ranks, [&](int) {
      for (int i = 0; i < kGroups; ++i) {
        const int first = i * members % ranks;
        torch.distributed.new_group(consecutive(first, members));
      }
    });
  }
  const double calls = static_cast<double>(state.iterations()) * kGroups * ranks;
  state.counters["us_per_call"] = (cpu_seconds() - before) * 1e6 / calls;
}
BENCHMARK(new_group)->ArgName("members")->Arg(1)->Arg(8)->Arg(64)->Unit(benchmark::kMillisecond);

// Groups that are used: each rank calls a collective of each of its groups, which are then
// destroyed.
void groups_used_and_destroyed(benchmark::State& state) {
  constexpr int kGroups = 100;
  constexpr int kRanks = 16;
  RuntimeContext torch(make_grid(kRanks));
  torch.distributed.init_process_group("ahbm");
  const double before = cpu_seconds();
  for (auto _ : state) {
    run_on_devices(torch, kRanks, [&](int rank) {
      const Tensor x = torch.full({64}, 1, {.dp = DPPolicy::on_one_pe()});
      for (int i = 0; i < kGroups; ++i) {
        const int first = i * 8 % kRanks;
        const auto group = torch.distributed.new_group(consecutive(first, 8));
        if (rank < first || rank >= first + 8) continue;
        torch.distributed.all_reduce(x, ReduceOp::max, {.group = group});
        torch.distributed.destroy_process_group(group);
      }
    });
  }
  const double groups = static_cast<double>(state.iterations()) * kGroups;
  state.counters["us_per_group"] = (cpu_seconds() - before) * 1e6 / groups;
}
BENCHMARK(groups_used_and_destroyed)->Unit(benchmark::kMillisecond);

// 1,024 f32 each, of which `op` max takes the plan that any group takes.
template <ReduceOp op>
void all_reduce_per_rank(benchmark::State& state) {
  constexpr int kCalls = 4;
  const auto ranks = static_cast<int>(state.range(0));
  RuntimeContext torch(make_grid(ranks), {.data = false});
  torch.distributed.init_process_group("ahbm");
  const double before = cpu_seconds();
  for (auto _ : state) {
    run_on_devices(torch, ranks, [&](int) {
      const Tensor x = torch.full({1024}, 1, {.dp = DPPolicy::on_one_pe()});
      for (int i = 0; i < kCalls; ++i) torch.distributed.all_reduce(x, op);
    });
  }
  const double calls = static_cast<double>(state.iterations()) * kCalls * ranks;
  state.counters["us_per_call"] = (cpu_seconds() - before) * 1e6 / calls;
}
BENCHMARK(all_reduce_per_rank<ReduceOp::max>)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);

// Measures calls that cost nothing on the device, so that only bookkeeping remains.
template <class Call>
void per_rank(benchmark::State& state, Call call) {
  const auto ranks = static_cast<int>(state.range(0));
  RuntimeContext torch(make_grid(ranks), {.data = false});
  torch.distributed.init_process_group("ahbm");
  const double before = cpu_seconds();
  for (auto _ : state) {
    run_on_devices(torch, ranks, [&](int rank) { call(torch, rank); });
  }
  const double calls = static_cast<double>(state.iterations()) * ranks;
  state.counters["us_per_call"] = (cpu_seconds() - before) * 1e6 / calls;
}

void all_gather(RuntimeContext& torch, int) {
  const int ranks = torch.distributed.get_world_size();
  const Tensor x = torch.full({16}, 1, {.dp = DPPolicy::on_one_pe()});
  const Tensor all = torch.zeros({ranks, 16}, {.dp = DPPolicy::on_one_pe()});
  torch.distributed.all_gather_into_tensor(all, x);
}
void all_to_all(RuntimeContext& torch, int) {
  const int ranks = torch.distributed.get_world_size();
  const Tensor x = torch.zeros({ranks, 16}, {.dp = DPPolicy::on_one_pe()});
  const Tensor y = torch.zeros({ranks, 16}, {.dp = DPPolicy::on_one_pe()});
  torch.distributed.all_to_all_single(y, x);
}
void objects(RuntimeContext& torch, int rank) {
  std::vector<int> all;
  torch.distributed.all_gather_object(all, rank);
}
BENCHMARK_CAPTURE(per_rank, all_gather, all_gather)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(per_rank, all_to_all, all_to_all)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(per_rank, all_gather_object, objects)
    ->ArgName("ranks")
    ->Arg(8)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace group_benchmark

}  // namespace kernbench::micro
