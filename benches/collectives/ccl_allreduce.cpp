// ccl-allreduce: a summand on every holder, one all_reduce by every rank, every element checked.

#include "benches/collectives/ccl_allreduce.h"

#include <fmt/format.h>

#include <array>

#include "benches/bench/bench.h"
#include "benches/collectives/collective_run.h"
#include "benches/collectives/collective_table.h"

namespace kernbench::benches {

namespace {

constexpr std::array kPlacements = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                    Shard::partial};
constexpr std::int64_t kMostElements = std::int64_t{1} << 32;
constexpr int kMaxWorldSize = 1 << 20;

ccl::Config config_of(const Bench& bench) {
  const Settings& settings = bench.settings();
  ccl::Config ccl = bench.ccl();
  if (settings.is_set("algorithm")) ccl = ccl.with_algorithm(settings.text("algorithm"));
  if (settings.is_set("buffer_kind")) {
    ccl = ccl.with_buffer_kind(settings.choice("buffer_kind", sim::kBufferKinds));
  }
  if (settings.is_set("world_size")) {
    ccl = ccl.with_world_size(
        static_cast<int>(settings.integers("world_size", 1, kMaxWorldSize).front()));
  }
  return ccl;
}

DPPolicy placement_of(const Bench& bench, const ccl::Config& ccl) {
  const Settings& settings = bench.settings();
  DPPolicy placement = default_placement(ccl);
  if (settings.is_set("cube")) placement.cube = settings.choice("cube", kPlacements);
  if (settings.is_set("pe")) placement.pe = settings.choice("pe", kPlacements);
  return placement;
}

// "16 KiB", "100 B"
std::string in_binary_units(Bytes bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

void note_what_runs(Bench& bench, const ccl::Config& ccl, const CollectiveInput& input) {
  const sim::IpcqParams ipcq = ccl.ipcq();
  bench.note("algorithm",
             fmt::format("{}, queues of {} x {} in {}", ccl.algorithm_name(), ipcq.depth,
                         in_binary_units(ipcq.slot_bytes), name_of(ipcq.buffer_kind)));
  if (ccl.world_size()) {
    bench.note("tensor",
               fmt::format("{{1, count}} {} on each PE, one driver for all", name_of(input.dtype)));
  } else {
    bench.note("tensor", fmt::format("{{1, count}} {} on each rank, {}", name_of(input.dtype),
                                     to_string(input.placement)));
  }
}

void run_ccl_allreduce(Bench& bench) {
  const Settings& settings = bench.settings();
  const ccl::Config& ccl = bench.ccl();
  const std::vector<std::int64_t> sizes =
      settings.is_set("n_elem") ? settings.integers("n_elem", 0, kMostElements) : ccl.n_elem();
  CollectiveInput input{0, settings.choice("dtype", kDTypes), placement_of(bench, ccl),
                        bench.seed()};
  note_what_runs(bench, ccl, input);

  const auto torch = bench.make_context();
  CollectiveTable table(bench);
  table.begin();
  for (const std::int64_t n_elem : sizes) {
    input.n_elem = n_elem;
    table.add(run_collective(*torch, ccl, input));
  }
  table.end();
}

}  // namespace

bool register_ccl_allreduce() {
  return register_bench(
      {"ccl-allreduce",
       "all_reduce over all ranks: time, bandwidth, every element checked",
       {{"n_elem", "", "elements of each summand, a list; else ccl.yaml's"},
        {"dtype", "f16", "f16, bf16 or f32"},
        {"algorithm", "", "one of those below; else ccl.yaml's"},
        {"buffer_kind", "", "where queues lie: tcm, sram or hbm; else ccl.yaml's"},
        {"world_size", "", "rank = PE: the first so many PEs; else ccl.yaml's, or SIPs"},
        {"cube", "", "over cubes: replicate, row_wise, column_wise or partial"},
        {"pe", "", "over the PEs of a cube, likewise"}},
       run_ccl_allreduce,
       config_of});
}

}  // namespace kernbench::benches
