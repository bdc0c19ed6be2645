#include "sim_engine/components/composite_plan.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "sim_engine/components/machine.h"
#include "sim_engine/components/tile_choices.h"
#include "sim_engine/components/tile_estimate.h"
#include "sim_engine/components/tile_traffic.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::composite_plan_test {

namespace {

constexpr WaysOfTiles kWay{.hbm = {{Bandwidth{100'000'000'000}, Time{100'000}}}};

// An array of 32 x 32, whose ports of TCM have this bandwidth; unlimited ones delay nothing.
Topology::Pe pe_with(Bandwidth port, Dataflow dataflow = Dataflow::output_stationary) {
  Topology::Pe pe;
  pe.gemm = {.rows = 32, .columns = 32, .dataflow = dataflow, .clock = Frequency{1'000'000'000}};
  pe.tcm.compute_bandwidth = port;
  return pe;
}
const Topology::Pe kPe = pe_with({});

CompositePlan plan_of(const GemmSize& size, const GemmSize& tile = {}, DType dtype = DType::f16) {
  CompositePlan plan;
  plan.size = size;
  plan.tile = tile;
  plan.a.buffer.dtype = plan.b.buffer.dtype = plan.c.buffer.dtype = dtype;
  return plan;
}

// Counts what each product loads and each result stores, tile by tile.
std::pair<Bytes, Bytes> traffic_by_counting(const CompositePlan& plan, Bytes element) {
  Bytes loaded = 0;
  Bytes stored = 0;
  const auto& [m, n, k] = plan.size;
  for (std::int64_t row = 0; row < m; row += plan.tile.m) {
    for (std::int64_t column = 0; column < n; column += plan.tile.n) {
      const std::int64_t rows = std::min(plan.tile.m, m - row);
      const std::int64_t columns = std::min(plan.tile.n, n - column);
      for (std::int64_t depth = 0; depth < k; depth += plan.tile.k) {
        loaded += (rows + columns) * std::min(plan.tile.k, k - depth) * element;
      }
      stored += rows * columns * element;
    }
  }
  return {loaded, stored};
}

}  // namespace

TEST_CASE("bytes loaded and stored are m k ceil(n / tile.n) + k n ceil(m / tile.m) + m n",
          "[composite]") {
  const GemmSize size{100, 70, 50};
  const GemmSize tile = GENERATE(GemmSize{100, 70, 50}, GemmSize{32, 32, 32}, GemmSize{1, 70, 3},
                                 GemmSize{99, 1, 50}, GemmSize{50, 35, 25});
  const CompositePlan plan = plan_of(size, tile);
  const std::int64_t columns = (70 + tile.n - 1) / tile.n;
  const std::int64_t rows = (100 + tile.m - 1) / tile.m;
  CHECK(loaded_bytes(plan) == 2 * (100 * 50 * columns + 50 * 70 * rows));
  CHECK(stored_bytes(plan) == 2 * 100 * 70);
  CHECK(traffic_by_counting(plan, 2) == std::pair{loaded_bytes(plan), stored_bytes(plan)});
}

TEST_CASE("a bias is loaded for every row of tiles", "[composite]") {
  CompositePlan plan = plan_of({100, 70, 50}, {32, 32, 32});
  const Bytes without = loaded_bytes(plan);
  plan.bias.emplace().buffer.dtype = DType::f32;
  CHECK(loaded_bytes(plan) == without + 4 * 70 * 4);
}

// a lies in four blocks of 8 rows, two in each of two slices of HBM.
TEST_CASE("blocks of one slice of HBM take one transfer", "[composite]") {
  CompositePlan plan = plan_of({32, 16, 24}, {16, 16, 24}, DType::f16);
  plan.a.pitch = 24;
  FurtherBlocks further;
  for (int block = 1; block < 4; ++block) {
    further.blocks.push_back({8 * block, {plan.a.buffer, 0, 24, block != 2}});
  }
  plan.a.list = std::make_shared<const FurtherBlocks>(further);
  CHECK(plan.a.further_transfers() == 1);
  std::vector<std::vector<std::int64_t>> transfers;  // the rows of each
  plan.a.for_each_transfer(plan.a.rows_at(4, 0, 24, 24), [&](const OperandAt::Rows& transfer) {
    std::vector<std::int64_t>& rows = transfers.emplace_back();
    plan.a.for_each_part(transfer, [&](const MatrixAt&, const ElementRange& elements) {
      rows.push_back(elements.count() / 24);
    });
  });
  CHECK(transfers == std::vector<std::vector<std::int64_t>>{{4, 8}, {8, 4}});
  // Loads of a in 3 transfers at most, of b once for each of two tiles, two products and stores.
  CHECK(part_count(plan) == 3 + 2 + 2 + 2);
}

TEST_CASE("the working set is two tiles of each, one where there is only one", "[composite]") {
  constexpr Bytes kOperands = (32 * 8 + 8 * 16) * 2;
  constexpr Bytes kResult = 32 * 16 * 4;
  const GemmSize tile{32, 16, 8};
  CHECK(working_set(plan_of({64, 16, 8}, tile)) == 2 * kOperands + 2 * kResult);
  CHECK(working_set(plan_of({32, 17, 8}, tile)) == 2 * kOperands + 2 * kResult);
  CHECK(working_set(plan_of({32, 16, 9}, tile)) == 2 * kOperands + kResult);
  CHECK(working_set(plan_of({32, 16, 8}, tile)) == kOperands + kResult);
  CompositePlan biased = plan_of({64, 16, 8}, tile);
  biased.bias.emplace().buffer.dtype = DType::f16;
  CHECK(working_set(biased) == 2 * kOperands + 2 * (kResult + 16 * 2));
}

TEST_CASE("chosen tiles fit, whatever there is to fit into", "[composite]") {
  const GemmSize size =
      GENERATE(GemmSize{4096, 4096, 4096}, GemmSize{1, 4096, 4096}, GemmSize{4096, 1, 4096},
               GemmSize{4096, 4096, 1}, GemmSize{17, 33, 100'000}, GemmSize{1, 1, 1});
  for (const Bytes scratch : {Bytes{16}, Bytes{200}, Bytes{4096}, Bytes{1} << 16, Bytes{1} << 21}) {
    const CompositePlan plan = plan_of(size);
    const auto tile = choose_tile(plan, {}, kPe, kWay, scratch);
    if (!tile) {
      CHECK(working_set(plan_of(size, {1, 1, 1})) > scratch);
      continue;
    }
    CHECK(tile->m >= 1);
    CHECK(tile->m <= size.m);
    CHECK(tile->n >= 1);
    CHECK(tile->n <= size.n);
    CHECK(tile->k >= 1);
    CHECK(tile->k <= size.k);
    CHECK(working_set(plan_of(size, *tile)) <= scratch);
  }
}

TEST_CASE("sizes that are wanted are kept, others chosen around them", "[composite]") {
  const CompositePlan plan = plan_of({1000, 1000, 1000});
  CHECK(choose_tile(plan, {48, 0, 0}, kPe, kWay, 1 << 20)->m == 48);
  CHECK(choose_tile(plan, {0, 48, 0}, kPe, kWay, 1 << 20)->n == 48);
  CHECK(choose_tile(plan, {0, 0, 48}, kPe, kWay, 1 << 20)->k == 48);
  CHECK(choose_tile(plan, {2000, 48, 16}, kPe, kWay, 1 << 20) == GemmSize{1000, 48, 16});
  CHECK_FALSE(choose_tile(plan, {1000, 1000, 1000}, kPe, kWay, 1 << 20));
}

TEST_CASE("tiles of a large product keep the array busy, and the way less", "[composite]") {
  const CompositePlan plan = plan_of({4096, 4096, 4096});
  const GemmSize tile = choose_tile(plan, {}, kPe, kWay, 2 << 20).value();
  // Whole rows and columns of the array: no cycle is lost at an edge.  Two tiles of 64 x 4096 and
  // 4096 x 32 of f16 and two of 64 x 32 of f32 are 1.5 MiB: a fold of 4096 + 62 cycles loses 1.5 %
  // of them, and 1 / 64 + 1 / 32 + 1 / 4096 halves are 21.2 products per two bytes, where at
  // 1024 / 100 per byte the way would be busy all the time.
  CHECK(tile.m % 32 == 0);
  CHECK(tile.n % 32 == 0);
  CHECK(static_cast<double>(tile.k) / static_cast<double>(tile.k + 62) > 0.98);
  const CompositePlan tiled = plan_of(plan.size, tile);
  const Bytes bytes = loaded_bytes(tiled) + stored_bytes(tiled);
  CHECK(4096LL * 4096 * 4096 * 100 > 1024 * bytes);
}

TEST_CASE("k is cut evenly where the loads of a slab cannot hide behind a short rest",
          "[composite]") {
  for (const GemmSize& size : {GemmSize{4096, 4096, 4096}, GemmSize{32, 4096, 4096},
                               GemmSize{2048, 12'288, 4096}, GemmSize{4099, 4099, 4099}}) {
    const GemmSize tile = choose_tile(plan_of(size), {}, kPe, kWay, 2 << 20).value();
    const std::int64_t rest = size.k % tile.k;
    INFO(tile.m << " x " << tile.n << " x " << tile.k);
    CHECK((rest == 0 || 2 * rest > tile.k));
  }
}

TEST_CASE("a product that fits as a whole is cut still, to load while it works", "[composite]") {
  const GemmSize tile = choose_tile(plan_of({256, 256, 256}), {}, kPe, kWay, 2 << 20).value();
  CHECK(tile != GemmSize{256, 256, 256});
}

TEST_CASE("activations have their names", "[composite]") {
  std::vector<std::string_view> names;
  for (const Activation activation : kActivations) names.push_back(name_of(activation));
  CHECK(names == std::vector<std::string_view>{"none", "relu", "sigmoid", "silu", "gelu"});
}

// Tiles of 2048 bytes take 20,480 ps of HBM and 100,000 ps of latency, and a product of 32 + 62
// cycles 94,000 ps.
TEST_CASE("one step takes its loads, its product and its store", "[composite]") {
  constexpr Wide kTile = 20'480;
  constexpr Wide kLatency = 100'000;
  constexpr Wide kProduct = 94'000;
  const CompositePlan plan = plan_of({32, 32, 32}, {32, 32, 32});
  CHECK(estimate_time(plan, kPe, kWay) == 2 * kTile + kLatency + kProduct + kTile + kLatency);
  // The last of two PEs waits for the other one's loads.  Then it is late by a load, so that its
  // store has HBM for itself.
  WaysOfTiles shared = kWay;
  shared.hbm.share = Bandwidth{kWay.hbm.alone.bandwidth.per_second / 2};
  shared.pes_in_cube = 2;
  CHECK(estimate_time(plan, kPe, shared) == 4 * kTile + kLatency + kProduct + kTile + kLatency);
  // One that begins when the other has ended has a load, the product and the store before it still.
  shared.launch_spread = Time{1'000'000};
  CHECK(estimate_time(plan, kPe, shared) >=
        1'000'000 + kTile + kLatency + kProduct + kTile + kLatency);
}

TEST_CASE("an estimate that breaks off is longer than what it may be", "[composite]") {
  const GemmSize tile = GENERATE(GemmSize{32, 32, 1024}, GemmSize{96, 64, 1000}, GemmSize{1, 1, 1});
  const CompositePlan plan = plan_of({1000, 700, 1024}, tile);
  const Wide whole = estimate_time(plan, kPe, kWay);
  CHECK(estimate_time(plan, kPe, kWay, whole) == whole);
  for (Wide most = whole - 1; most > 0; most /= 2)
    CHECK(estimate_time(plan, kPe, kWay, most) > most);
}

// The products of 32 x 32 x 1024 take 1,086 ns each, and their loads 1,311 ns.
TEST_CASE("each step in the middle takes as long as its loads, if those take longest",
          "[composite]") {
  const auto time_of = [](std::int64_t results) {
    return estimate_time(plan_of({32 * results, 32, 1024}, {32, 32, 1024}), kPe, kWay);
  };
  constexpr Wide kLoads = 2 * 32 * 1024 * 2 * 10;
  constexpr Wide kStore = 32 * 32 * 2 * 10;
  CHECK(time_of(40) - time_of(20) == 20 * (kLoads + kStore));
}

// The part of a PE of default.yaml, in a cube of 8, in 4096 x 4096 x 4096 on 16 cubes.  All PEs of
// the cube read the same rows of a; each has columns of b of its own, which a PE of each cube
// reads.  The cube's SRAM has one port: what PEs read, what comes anew for each row of tiles, and
// what goes to other cubes pass it.
TEST_CASE("SRAM's port keeps up with the tiles of a product on a whole SIP", "[composite]") {
  constexpr std::int64_t kShareOfPort = 128'000'000'000;
  constexpr GemmSize kSize{256, 512, 4096};
  Topology::Pe pe = pe_with(Bandwidth{2'304'000'000'000});
  pe.gemm.clock = Frequency{1'500'000'000};
  CompositePlan plan = plan_of(kSize);
  plan.a.readers = {8, 8};
  plan.b.readers = {1, 16};
  const WaysOfTiles ways{.hbm = {{Bandwidth{92'160'000'000}, Time{140'000}}, {11'520'000'000}},
                         .sram = {{Bandwidth{256'000'000'000}, Time{40'000}}, {kShareOfPort}},
                         .cubes = {Bandwidth{512'000'000'000}, Time{140'000}},
                         .to_all_cubes = Bandwidth{768'000'000'000},
                         .hbm_to_sram = Time{140'000},
                         .sram_capacity = 16 << 20,
                         .pes_in_cube = 8};
  const auto tile = choose_tile(plan, {}, pe, ways, 1376 << 10);
  REQUIRE(tile);
  const auto [along_m, along_n, along_k] = tile_counts(kSize, *tile);
  const double a = 2.0 * kSize.m * kSize.k;
  const double b = 2.0 * kSize.n * kSize.k * static_cast<double>(along_m);
  const double passed = a * static_cast<double>(along_n) + a / 8 + b * (1 + 1 + 15.0 / 16);
  const double least_of_array = static_cast<double>(kSize.m / 32 * kSize.n / 32 * kSize.k) / 1.5e9;
  CHECK(passed / kShareOfPort < least_of_array);
}

TEST_CASE("a composite uses memory as often as is counted", "[composite]") {
  const auto in_blocks = [](OperandAt& operand, std::int64_t count) {
    auto list = std::make_shared<FurtherBlocks>();
    for (std::int64_t i = 1; i < count; ++i) list->blocks.push_back({100 * i, {}});
    operand.list = std::move(list);
  };
  const auto [of_a, of_b, of_c, has_bias] = GENERATE(table<int, int, int, bool>(
      {{1, 1, 1, false}, {3, 1, 1, false}, {1, 4, 1, true}, {1, 1, 2, false}, {5, 3, 7, true}}));
  CompositePlan plan = plan_of({1000, 1000, 1000});
  in_blocks(plan.a, of_a);
  in_blocks(plan.b, of_b);
  in_blocks(plan.c, of_c);
  if (has_bias) plan.bias.emplace().buffer.dtype = DType::f32;
  int uses = 0;
  for_each_memory_use(plan, [&](const MemoryUse&) { ++uses; });
  CHECK(uses == of_a + of_b + of_c + (has_bias ? 1 : 0));
  CHECK(static_cast<int>(count_memory_uses(plan)) == uses);
}

// A new tile is written once for the PEs of its cube that read it, and sent once to each other
// cube.
TEST_CASE("a tile passes SRAM's port once for each reader, and once for each that brings it",
          "[composite]") {
  const auto [in_cube, cubes] = GENERATE(table<int, int>({{1, 16}, {8, 1}, {8, 4}, {2, 3}}));
  CompositePlan plan = plan_of({256, 512, 4096}, {64, 64, 384});
  plan.a.readers = {8, 8 * cubes};
  plan.b.readers = {in_cube, in_cube * cubes};
  const WaysOfTiles ways{.hbm = {{Bandwidth{92'160'000'000}, Time{140'000}}, {11'520'000'000}},
                         .sram = {{Bandwidth{256'000'000'000}, Time{40'000}}, {1'000'000'000}},
                         .sram_capacity = 16 << 20,
                         .pes_in_cube = 8};
  constexpr Bytes kTile = 64 * 384 * 2;
  const TileLoad load = TileTraffic(plan, ways).cost_of(plan.b, 64, 384);
  CAPTURE(in_cube, cubes);
  CHECK(load.sram_kept.together == kTile * 1000);
  CHECK(load.sram_new.together ==
        (kTile + kTile / in_cube + kTile * (cubes - 1) / (in_cube * cubes)) * 1000);
}

// Messages go along the row first, and then along the column.
TEST_CASE("cubes send to all others at the rate of each one's busiest link", "[composite]") {
  const auto [w, h] = GENERATE(table<int, int>({{2, 1}, {1, 4}, {4, 4}, {5, 2}, {2, 5}, {3, 7}}));
  const Topology topology = test::round_topology(SipTopology::ring_1d, 2, 1, w, h);
  Machine machine(topology, {});
  std::int64_t busiest = 0;
  for (int from = 0; from < w * h; ++from) {
    std::array<std::int64_t, 4> takers{};  // by link: east, west, south, north
    for (int to = 0; to < w * h; ++to) {
      const int ahead = to % w - from % w;
      const int down = to / w - from / w;
      if (to != from) ++takers[ahead != 0 ? (ahead > 0 ? 0 : 1) : (down > 0 ? 2 : 3)];
    }
    busiest += *std::ranges::max_element(takers);
  }
  const WaysOfTiles ways = find_ways_of_tiles(topology, machine.fabric(), {0, 0, 0}, {0, 0, 0}, {});
  CHECK(ways.to_all_cubes.per_second ==
        topology.sip.ucie.bandwidth.per_second * w * h * (w * h - 1) / busiest);
}

TEST_CASE("no depth that is asked for is faster than the one that is chosen", "[composite]") {
  for (const std::int64_t k : {33, 63, 100, 250, 500, 1000}) {
    for (const Bytes scratch : {Bytes{1} << 15, Bytes{1} << 17, Bytes{1} << 20}) {
      const auto time_with = [&](std::int64_t depth) {
        const auto tile = choose_tile(plan_of({64, 64, k}), {0, 0, depth}, kPe, kWay, scratch);
        return tile ? estimate_time(plan_of({64, 64, k}, *tile), kPe, kWay) : kNoLimit;
      };
      CAPTURE(k, scratch);
      CHECK(time_with(0) * 256 <= time_with(k) * 257);  // the tolerance of choose_tile()
    }
  }
}

// Each differs from the first in one of the arguments that change the tile.
TEST_CASE("tile sizes that are looked up are those that are chosen", "[composite]") {
  struct Asked {
    CompositePlan plan;
    GemmSize wanted = {};
    WaysOfTiles ways = kWay;
    Bytes scratch = 1 << 20;
  };
  CompositePlan biased = plan_of({1000, 1000, 1000});
  biased.bias.emplace().buffer.dtype = DType::f32;
  const auto [bandwidth, latency] = kWay.hbm.alone;
  const auto with_ways = [](const auto& change) {
    WaysOfTiles ways = kWay;
    ways.sram = {{Bandwidth{200'000'000'000}, Time{10'000}}};
    ways.sram_capacity = 4 << 20;
    change(ways);
    return ways;
  };
  const auto shared = [](int readers_of_a, int readers_of_b) {
    CompositePlan plan = plan_of({1000, 1000, 1000});
    plan.a.readers = {readers_of_a, readers_of_a};
    plan.b.readers = {readers_of_b, readers_of_b};
    return plan;
  };
  // Rows in eight slices of HBM, which all PEs of a cube read.
  const auto in_slices = [&](bool a_is_transposed, bool b_is_transposed) {
    auto list = std::make_shared<FurtherBlocks>();
    for (std::int64_t i = 1; i < 8; ++i) list->blocks.push_back({125 * i, {}});
    CompositePlan plan = shared(8, 8);
    plan.a.list = plan.b.list = list;
    plan.a.is_transposed = a_is_transposed;
    plan.b.is_transposed = b_is_transposed;
    return plan;
  };
  const auto of_cube = with_ways([](WaysOfTiles& ways) {
    ways.hbm = {{Bandwidth{20'000'000'000}, Time{100'000}}, {20'000'000'000}};
    ways.pes_in_cube = ways.slices_in_cube = 8;
  });
  const std::vector<Asked> all = {
      {in_slices(false, false), {}, of_cube},
      {in_slices(true, false), {}, of_cube},
      {in_slices(false, true), {}, of_cube},
      {plan_of({1000, 1000, 1000})},
      {plan_of({999, 1000, 1000})},
      {plan_of({1000, 999, 1000})},
      {plan_of({1000, 1000, 999})},
      {plan_of({1000, 1000, 1000}, {}, DType::f32)},
      {biased},
      {plan_of({1000, 1000, 1000}), {48, 0, 0}},
      {plan_of({1000, 1000, 1000}), {0, 48, 0}},
      {plan_of({1000, 1000, 1000}), {0, 0, 48}},
      {plan_of({1000, 1000, 1000}), {}, {{{Bandwidth{1'000'000'000}, latency}}}},
      {plan_of({1000, 1000, 1000}), {}, {{{bandwidth, Time{100'000'000}}}}},
      {plan_of({1000, 1000, 1000}), {}, {{{bandwidth, latency}, {1'000'000'000}}}},
      {plan_of({1000, 1000, 1000}), {}, kWay, 1 << 16},
      {shared(1, 8), {}, with_ways([](WaysOfTiles&) {})},
      {shared(8, 1), {}, with_ways([](WaysOfTiles&) {})},
      {shared(1, 8), {}, with_ways([](WaysOfTiles& ways) {
         ways.sram.alone.latency = Time{9'000'000};
       })},
      {shared(1, 8), {}, with_ways([](WaysOfTiles& ways) { ways.sram.share = {1'000'000'000}; })},
      {shared(1, 8), {}, with_ways([](WaysOfTiles& ways) { ways.hbm_to_sram = Time{9'000'000}; })},
      {shared(1, 8), {}, with_ways([](WaysOfTiles& ways) { ways.pes_in_cube = 8; })},
      {shared(1, 8), {}, with_ways([](WaysOfTiles& ways) {
         ways.pes_in_cube = 8;
         ways.launch_spread = Time{9'000'000};
       })},
      {plan_of({1000, 1000, 1000}), {1000, 1000, 1000}},  // none fits
  };
  TileChoices choices;
  for (int time = 0; time < 2; ++time) {
    for (const Asked& asked : all) {
      CHECK(choices.choose(asked.plan, asked.wanted, kPe, asked.ways, asked.scratch) ==
            choose_tile(asked.plan, asked.wanted, kPe, asked.ways, asked.scratch));
    }
  }
}

}  // namespace kernbench::sim::composite_plan_test
