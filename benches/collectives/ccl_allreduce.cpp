// ccl-allreduce: a preset of the bench `collectives` for the algorithms of ccl.yaml: every holder
// inside a rank has a summand of its own, ranks may be PEs, and all sizes run on one system.

#include <fmt/format.h>

#include "benches/bench/bench_run.h"
#include "benches/bench/row_cells.h"
#include "benches/bench/tie_spread.h"
#include "benches/collectives/collective_table.h"
#include "benches/collectives/collectives.h"
#include "benches/collectives/measured_collective.h"

namespace kernbench::benches::collectives {

namespace {

constexpr std::array kPlacements = {Shard::replicate, Shard::row_wise, Shard::column_wise,
                                    Shard::partial};
constexpr std::int64_t kMostElements = std::int64_t{1} << 32;

ccl::Config configure(const Bench& bench) {
  const Settings& settings = bench.settings();
  ccl::Config ccl = choose_algorithm_and_ranks(bench);
  if (settings.is_set("buffer_kind")) {
    ccl = ccl.with_buffer_kind(settings.choice("buffer_kind", sim::kBufferKinds));
  }
  return ccl;
}

// The input of ccl-allreduce, without its count.
MeasuredInput configured_input(const Bench& bench) {
  const Settings& settings = bench.settings();
  MeasuredInput input = input_for(bench.ccl(), bench.topology());
  input.blocks.dtype = settings.choice("dtype", kDTypes);
  input.blocks.seed = bench.seed();
  if (settings.is_set("cube")) input.placement.cube = settings.choice("cube", kPlacements);
  if (settings.is_set("pe")) input.placement.pe = settings.choice("pe", kPlacements);
  return input;
}

// "16 KiB", "100 B"
std::string in_binary_units(Bytes bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

void note_algorithm(Bench& bench, const MeasuredInput& input) {
  const ccl::Config& ccl = bench.ccl();
  const sim::IpcqParams ipcq = ccl.ipcq();
  const bool is_named = ccl.names_all_reduce() || ccl.world_size();
  bench.note("algorithm",
             fmt::format("{}, queues of {} x {} in {}",
                         is_named ? ccl.algorithm_name() : "the fastest by the model", ipcq.depth,
                         in_binary_units(ipcq.slot_bytes), name_of(ipcq.buffer_kind)));
  bench.note("tensor", fmt::format("{{1, count}} {} on each {}", name_of(input.blocks.dtype),
                                   ccl.world_size() ? "PE, one driver for all"
                                                    : "rank, " + to_string(input.placement)));
}

// The rows of all sizes, in each of the orders of simultaneous events that are wanted besides.
std::vector<std::vector<Row>> rows_in_other_orders(Bench& bench, MeasuredInput input,
                                                   const std::vector<std::int64_t>& sizes) {
  std::vector<std::vector<Row>> orders;
  for (int seed = 1; seed <= bench.run().tie_orders(); ++seed) {
    ContextSet shuffled(bench.run().contexts, static_cast<std::uint64_t>(seed));
    const auto torch = shuffled.make(bench.topology(), {.ccl = bench.ccl()});
    std::vector<Row>& rows = orders.emplace_back();
    for (const std::int64_t n_elem : sizes) {
      input.blocks.count = n_elem;
      rows.push_back(to_row(input, measure(*torch, input), bench.ccl()));
    }
  }
  return orders;
}

void run_ccl_allreduce(Bench& bench) {
  const Settings& settings = bench.settings();
  const ccl::Config& ccl = bench.ccl();
  const std::vector<std::int64_t> sizes =
      settings.is_set("n_elem") ? settings.integers("n_elem", 0, kMostElements) : ccl.n_elem();
  MeasuredInput input = configured_input(bench);
  note_algorithm(bench, input);
  const auto others = rows_in_other_orders(bench, input, sizes);
  TieSummary ties;
  const auto torch = bench.make_context();
  CollectiveTable table(bench, input.blocks.collective, TableForm::one_place);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    input.blocks.count = sizes[i];
    const Measurement measured = measure(*torch, input);
    Row row = to_row(input, measured, ccl);
    table.add(Row(row).set("redop", redop_name(input.blocks)));
    if (!measured.why.empty()) {
      bench.print(fmt::format("#   took the fastest: {}\n", measured.why));
    }
    bool ok = measured.wrong == 0;
    TieSpread spread(row);
    for (const std::vector<Row>& order : others) {
      spread.add(order[i]);
      ok = ok && number_in(order[i], "wrong") == 0;
    }
    if (!others.empty()) {
      spread.write(row);
      ties.add(row, fmt::format("{} elements", sizes[i]));
    }
    bench.add_row(std::move(row), ok);
  }
  table.end();
  if (!others.empty()) bench.note("ties", ties.text("all_reduce", bench.run().tie_orders()));
}

}  // namespace

BenchInfo ccl_allreduce_bench() {
  BenchInfo info{
      "ccl-allreduce",
      "all_reduce over all ranks: time, bandwidth, every element checked",
      {{"n_elem", "", "elements of each summand, a list; else ccl.yaml's", SettingType::integers},
       {"dtype", "f16", "f16, bf16 or f32", SettingType::name},
       algorithm_setting(),
       {"buffer_kind", "", "where queues lie: tcm, sram or hbm; else ccl.yaml's",
        SettingType::name},
       world_size_setting(),
       {"cube", "", "over cubes: replicate, row_wise, column_wise or partial", SettingType::name},
       {"pe", "", "over the PEs of a cube, likewise", SettingType::name}},
      run_ccl_allreduce,
      configure};
  info.has_like_rows = true;
  return info;
}

}  // namespace kernbench::benches::collectives
