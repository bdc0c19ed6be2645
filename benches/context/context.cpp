#include "benches/context/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benches/bench/bench_run.h"
#include "benches/bench/inputs.h"
#include "benches/bench/table.h"
#include "benches/context/measured_context.h"
#include "benches/train/model_settings.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::context {

namespace {

using experimental::kTokenOrders;
using experimental::TokenOrder;

constexpr std::array kColumns = {
    TableColumn{"method", "", -9, "method"},
    TableColumn{"order", "", -10, "order"},
    TableColumn{"ranks", "", 5, "ranks"},
    TableColumn{"time", "(us)", 11, "time_ns", 1e-3, 3},
    TableColumn{"one rank", "(us)", 11, "one_rank_ns", 1e-3, 3},
    TableColumn{"efficiency", "(%)", 10, "efficiency", 100, 1},
    TableColumn{"formula", "(%)", 7, "formula", 100, 1},
    TableColumn{"computing", "least (us)", 11, "least_computing_ns", 1e-3, 3},
    TableColumn{"computing", "most (us)", 11, "most_computing_ns", 1e-3, 3},
    TableColumn{"exposed", "(us)", 11, "exposed_ns", 1e-3, 3},
    TableColumn{"links", "(B a rank)", 11, "link_bytes"},
    TableColumn{"peak", "(B)", 11, "peak_bytes"},
};

ContextInput read_input(const Settings& settings) {
  const auto integer = [&](std::string_view key) { return settings.integer(key, 1, train::kMost); };
  ContextInput input{.seq = integer("seq"),
                     .heads = integer("heads"),
                     .kv_heads = integer("kv_heads"),
                     .depth = integer("depth"),
                     .is_causal = settings.flag("causal"),
                     .has_backward = settings.flag("backward"),
                     .dtype = settings.choice("dtype", kDTypes)};
  if (input.heads % input.kv_heads != 0) {
    throw UsageError("KB-U012", "--set heads: {} is no multiple of kv_heads {}", input.heads,
                     input.kv_heads);
  }
  return input;
}

void check_point(const ContextInput& input) {
  const int chunks = input.order == TokenOrder::head_tail ? 2 * input.ranks : input.ranks;
  if (input.seq % chunks != 0) {
    throw UsageError("KB-U012", "--set seq: {} tokens are not divided by the {} chunks of {} ranks",
                     input.seq, chunks, input.ranks);
  }
  if (input.method == Method::ulysses && input.kv_heads % input.ranks != 0) {
    throw UsageError("KB-U012", "--set kv_heads: {} are not divided by {} ranks, as ulysses wants",
                     input.kv_heads, input.ranks);
  }
}

// By the number of ranks.
std::vector<std::vector<ContextInput>> read_points(const Settings& settings,
                                                   const Topology& topology) {
  ContextInput input = read_input(settings);
  std::vector<std::vector<ContextInput>> points;
  for (const std::int64_t ranks : settings.integers("ranks", 1, train::kMostRanks)) {
    input.ranks = static_cast<int>(ranks);
    input.on = train::read_pes(settings, topology, input.tokens());
    points.emplace_back();
    for (const Method method : settings.choices("method", kMethods)) {
      input.method = method;
      for (const TokenOrder order : settings.choices("order", kTokenOrders)) {
        // It has its tokens in their order alone.
        input.order = method == Method::ulysses ? TokenOrder::contiguous : order;
        check_point(input);
        points.back().push_back(input);
        if (method == Method::ulysses) break;
      }
    }
  }
  return points;
}

// The efficiency with rows as small as can be and messages that take no time.
double formula_of(const ContextInput& input) {
  const bool is_even =
      !input.is_causal || input.method == Method::ulysses || input.order != TokenOrder::contiguous;
  return is_even ? 1 : static_cast<double>(input.ranks) / (2 * input.ranks - 1);
}

Row point_row(const ContextInput& input, const MeasuredContext& measured, Time alone) {
  const double time = to_ns(measured.time);
  const double one_rank = to_ns(alone);
  const auto [least, most] =
      std::ranges::minmax_element(measured.ranks, {}, &MeasuredRank::computing);
  // They are counted where the topology has their energy.
  std::optional<std::int64_t> link_bytes;
  if (measured.link_bytes > 0) link_bytes = measured.link_bytes / input.ranks;
  return Row()
      .set("method", name_of(input.method))
      .set("order", name_of(input.order))
      .set("ranks", input.ranks)
      .set("time_ns", time)
      .set("one_rank_ns", one_rank)
      .set("efficiency", one_rank / (input.ranks * time))
      .set("formula", formula_of(input))
      .set("least_computing_ns", to_ns(least->computing))
      .set("most_computing_ns", to_ns(most->computing))
      .set("exposed_ns", to_ns(most->exposed))
      .set("link_bytes", link_bytes)
      .set("peak_bytes", std::ranges::max(measured.ranks, {}, &MeasuredRank::peak).peak);
}

// The inputs have as many ranks each, so that one rank alone is the same.
std::vector<Row> simulate(PointContext& point, const std::vector<ContextInput>& inputs) {
  const Time alone = time_of_one_rank(point, inputs.front());
  std::vector<Row> rows;
  for (const ContextInput& input : inputs) {
    rows.push_back(point_row(input, measure_context(point, input), alone));
  }
  return rows;
}

void run_context(Bench& bench) {
  check_rank_is_sip(bench);
  check_ranks_begin_together(bench);
  const auto points = read_points(bench.settings(), bench.topology());
  const ContextInput& first = points.front().front();
  bench.note("attention",
             fmt::format("{} tokens, {} heads of {} features, {} of key and value, {}{}, {}",
                         first.seq, first.heads, first.depth, first.kv_heads,
                         first.is_causal ? "causal" : "without a mask",
                         first.has_backward ? ", with backward" : "", name_of(first.dtype)));
  bench.note("ranks", "each point has as many of these SIPs as ranks");
  bench.note("device", train::describe(first.on, bench.topology()));
  bench.note("efficiency",
             "the time on one rank alone, over ranks times the time; formula: with "
             "free messages and rows one by one");
  Sweep sweep(bench, "context");
  for (const std::vector<ContextInput>& inputs : points) {
    sweep.add(fmt::format("ranks {}", inputs.front().ranks),
              [inputs](PointContext& point) { return simulate(point, inputs); });
  }
  const std::vector<Row> rows = sweep.run();
  bench.print("#\n" + table_head(kColumns));
  for (const Row& row : rows) bench.print(table_line(kColumns, row, bench.run().console));
}

}  // namespace

BenchInfo context_bench() {
  return {
      "context",
      "attention over a sequence that ranks share, by order and by what moves",
      {{"method", "alltoall,allgather,ulysses", "alltoall, allgather, ulysses, a list",
        SettingType::names},
       {"order", "contiguous,head_tail,striped", "contiguous, head_tail, striped, a list",
        SettingType::names},
       {"ranks", "8", "that share the sequence, a list", SettingType::integers},
       {"seq", "4096", "tokens of the sequence", SettingType::integer},
       {"heads", "64", "of the query", SettingType::integer},
       {"kv_heads", "8", "of key and value, each for as many of the query", SettingType::integer},
       {"depth", "64", "features of a head", SettingType::integer},
       {"causal", "true", "false: each row sees all keys", SettingType::flag},
       {"backward", "false", "true: the gradients too", SettingType::flag},
       {"dtype", "bf16", "f16, bf16 or f32", SettingType::name},
       {"cubes", "", "of each SIP that share its rank's tokens; else as many as these fill",
        SettingType::integer},
       {"pes", "", "of each of these cubes, likewise", SettingType::integer}},
      run_context,
      nullptr,
      BenchRanks::own};
}

}  // namespace kernbench::benches::context
