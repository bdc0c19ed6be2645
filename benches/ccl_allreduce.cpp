// ccl-allreduce: a summand on every holder, one all_reduce by every rank, every element checked.
//
// The collective goes the way that a user's worker goes: init_process_group, spawn, all_reduce.
// Summands are small integers, so that sums are exact in any order and == decides.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "benches/bench.h"
#include "benches/collective_table.h"
#include "benches/exact_summands.h"
#include "ccl/lower_bound.h"

namespace kernbench::benches {

namespace {

constexpr std::array kShards = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                Shard::partial};
constexpr std::int64_t kMaxElements = std::int64_t{1} << 32;

struct Case {
  std::int64_t n_elem = 0;
  DType dtype = DType::f16;
  DPPolicy placement;
};

// What the ranks of one all_reduce leave behind.
struct Outcome {
  Time first_call = Time::max();
  Time last_return{0};
  std::vector<Tensor> tensors;  // by rank
};

void worker(int rank, RuntimeContext& torch, const Case& wanted, const ExactSummands& summands,
            Outcome& outcome) {
  torch.ahbm.set_device(rank);
  Tensor x = torch.empty({1, wanted.n_elem},
                         {.dtype = wanted.dtype, .dp = wanted.placement, .name = "ccl_in"});
  for (std::size_t i = 0; i < x.shards().size(); ++i) {
    const ShardInfo& shard = x.shards()[i];
    if (shard.shape.numel() == 0) continue;
    x.copy_shard_(i, RuntimeContext::tensor(summands.of_shard(rank, shard), shard.shape));
  }
  outcome.first_call = std::min(outcome.first_call, torch.engine().now());
  torch.distributed.all_reduce(x, ReduceOp::sum);
  outcome.last_return = std::max(outcome.last_return, torch.engine().now());
  outcome.tensors[static_cast<std::size_t>(rank)] = x;
}

std::optional<Time> closed_form(const Bench& bench, const ccl::Config& ccl, const Case& wanted) {
  const ccl::AlgorithmTime form = ccl.algorithm().closed_form;
  if (form == nullptr) return std::nullopt;
  return form({bench.topology(), wanted.placement, wanted.n_elem, wanted.dtype, ccl.ipcq()});
}

CollectiveRow measure(const Bench& bench, RuntimeContext& torch, const ccl::Config& ccl,
                      const Case& wanted) {
  const int world_size = torch.distributed.get_world_size();
  const ExactSummands summands(bench.topology(), wanted.placement, wanted.dtype, wanted.n_elem,
                               bench.seed());
  Outcome outcome;
  outcome.tensors.resize(static_cast<std::size_t>(world_size));
  torch.multiprocessing.spawn(worker, std::forward_as_tuple(torch, wanted, summands, outcome),
                              world_size);

  CollectiveRow row;
  row.collective = "all_reduce";
  row.algorithm = ccl.algorithm_name();
  row.world_size = world_size;
  row.buffer_kind = name_of(ccl.ipcq().buffer_kind);
  row.n_elem = wanted.n_elem;
  row.dtype = wanted.dtype;
  row.bytes = wanted.n_elem * size_of(wanted.dtype);
  row.critical = torch.engine().critical_pe_exec();
  row.time = outcome.last_return - outcome.first_call;
  row.lower_bound = ccl::all_reduce_lower_bound(bench.topology(), row.bytes);
  row.closed_form = closed_form(bench, ccl, wanted);
  row.wrong = summands.count_wrong(outcome.tensors);
  return row;
}

ccl::Config config_of(const Bench& bench) {
  const Settings& settings = bench.settings();
  ccl::Config ccl = bench.ccl();
  if (settings.is_set("algorithm")) ccl = ccl.with_algorithm(settings.text("algorithm"));
  if (settings.is_set("buffer_kind")) {
    ccl = ccl.with_buffer_kind(settings.choice("buffer_kind", sim::kBufferKinds));
  }
  return ccl;
}

// "16 KiB", "100 B"
std::string in_binary_units(Bytes bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

void note_what_runs(Bench& bench, const ccl::Config& ccl, const Case& first) {
  const sim::IpcqParams ipcq = ccl.ipcq();
  bench.note("algorithm",
             fmt::format("{}, queues of {} x {} in {}", ccl.algorithm_name(), ipcq.depth,
                         in_binary_units(ipcq.slot_bytes), name_of(ipcq.buffer_kind)));
  bench.note("tensor", fmt::format("{{1, count}} {} on each rank, {}", name_of(first.dtype),
                                   to_string(first.placement)));
}

}  // namespace

KERNBENCH_BENCH("ccl-allreduce",
                "all_reduce over all ranks: time, bandwidth, every element checked",
                {"n_elem", "", "elements of each summand, a list; else ccl.yaml's"},
                {"dtype", "f16", "f16, bf16 or f32"},
                {"algorithm", "", "one of those below; else ccl.yaml's"},
                {"buffer_kind", "", "where queues lie: tcm, sram or hbm; else ccl.yaml's"},
                {"cube", "partial", "over cubes: replicate, row_wise, column_wise or partial"},
                {"pe", "column_wise", "over the PEs of a cube, likewise"}) {
  const Settings& settings = bench.settings();
  const ccl::Config ccl = config_of(bench);
  const std::vector<std::int64_t> sizes =
      settings.is_set("n_elem") ? settings.integers("n_elem", 0, kMaxElements) : ccl.n_elem();
  Case wanted{0,
              settings.choice("dtype", kDTypes),
              {.cube = settings.choice("cube", kShards), .pe = settings.choice("pe", kShards)}};
  note_what_runs(bench, ccl, wanted);

  const auto torch = bench.make_context(bench.topology(), {.ccl = ccl});
  torch->distributed.init_process_group("ahbm");
  CollectiveTable table(bench);
  table.begin();
  for (const std::int64_t n_elem : sizes) {
    wanted.n_elem = n_elem;
    table.add(measure(bench, *torch, ccl, wanted));
  }
  table.end();
  torch->distributed.destroy_process_group();
}

}  // namespace kernbench::benches
