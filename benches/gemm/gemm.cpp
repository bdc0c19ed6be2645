// gemm: one matrix product on one PE, a cube, a SIP or all, every element checked.

#include "benches/gemm/gemm.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "benches/bench/bench_run.h"
#include "benches/gemm/exact_product.h"
#include "benches/gemm/gemm_run.h"
#include "benches/gemm/gemm_table.h"
#include "benches/gemm/tile_search.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::gemm {

namespace {

constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;  // as tl.composite

// Says how sides of the tile come about that no setting gives.
enum class TileBy : std::uint8_t { estimate, search };
constexpr std::array kTileBy = {TileBy::estimate, TileBy::search};

std::string_view name_of(TileBy by) {
  return by == TileBy::search ? "search" : "estimate";
}

constexpr std::array kCuts = {Shard::row_wise, Shard::column_wise};

std::optional<Shard> read_cut(const Settings& settings, std::string_view key) {
  if (!settings.is_set(key)) return {};
  return settings.choice(key, kCuts);
}

constexpr std::array kDTypesOfGemm = {DType::f16, DType::bf16, DType::f32, DType::f8e4m3fn,
                                      DType::f8e5m2};

std::int64_t tile_side(const Settings& settings, std::string_view key) {
  return settings.is_set(key) ? settings.integer(key, 1, kMostSize) : 0;
}

// Refuses settings of levels with a single holder, which would otherwise be ignored silently.
void check_cuts(const Settings& settings, GemmOn on) {
  const auto wants = [&](std::string_view key, GemmOn least) {
    if (!settings.is_set(key) || on >= least) return;
    throw UsageError("KB-U012", "--set {}: has no effect with on={}; wants on={}{}", key,
                     name_of(on), name_of(least), least == GemmOn::all ? "" : " or more");
  };
  wants("sip", GemmOn::all);
  wants("cube", GemmOn::sip);
  wants("pe", GemmOn::cube);
  wants("pes", GemmOn::cube);
}

GemmInput read_input(const Bench& bench) {
  const Settings& settings = bench.settings();
  GemmInput input;
  input.size = {
      settings.integer("m", 1, kMostSize), settings.integer("n", 1, kMostSize),
      settings.integer("k", 1, settings.flag("check") ? ExactProduct::kMostK : kMostSize)};
  input.dtype = settings.choice("dtype", kDTypesOfGemm);
  input.tile = {tile_side(settings, "tile_m"), tile_side(settings, "tile_n"),
                tile_side(settings, "tile_k")};
  input.placement = {.on = settings.choice("on", kGemmOn),
                     .sip = read_cut(settings, "sip"),
                     .cube = read_cut(settings, "cube"),
                     .pe = read_cut(settings, "pe")};
  if (settings.is_set("pes")) {
    input.placement.pes = static_cast<int>(settings.integer("pes", 1, bench.topology().pe_count()));
  }
  check_cuts(settings, input.placement.on);
  input.seed = bench.seed();
  return input;
}

Topology read_topology(const Bench& bench) {
  Topology topology = bench.topology();
  if (bench.settings().is_set("dataflow")) {
    topology.pe.gemm.dataflow = bench.settings().choice("dataflow", kDataflows);
  }
  return topology;
}

std::string sides_of(const sim::GemmSize& tile) {
  return fmt::format("{} x {} x {}", tile.m, tile.n, tile.k);
}

void note_what_ran(Bench& bench, const Topology& topology, const GemmRow& row) {
  const GemmSpec& array = topology.pe.gemm;
  const std::size_t working = row.shares.size();
  bench.note("array",
             fmt::format("{} x {}, {}, {} PE{} of {}{}", array.rows, array.columns,
                         name_of(array.dataflow), working, working == 1 ? "" : "s", row.pes,
                         working < static_cast<std::size_t>(row.pes)
                             ? ": more would not be faster, since a fold is not cut"
                             : ""));
  if (!row.cut.empty()) bench.note("c is cut", row.cut);
  bench.note("tile", fmt::format("{} (m, n, k)", sides_of(row.tile)));
  const auto note_cut = [&](std::string_view key, std::int64_t wanted, std::int64_t ran) {
    if (wanted <= ran) return;
    bench.note(key, fmt::format("{} is cut to {}, the most that fits", wanted, ran));
  };
  note_cut("tile_m", row.input.tile.m, row.tile.m);
  note_cut("tile_n", row.input.tile.n, row.tile.n);
  note_cut("tile_k", row.input.tile.k, row.tile.k);
}

// Searches for the fastest tile if the settings ask for it, and makes it that of the input.
std::optional<TileSearch> search_if_asked(Bench& bench, const Topology& topology,
                                          GemmInput& input) {
  if (bench.settings().choice("tile", kTileBy) != TileBy::search) return {};
  const TileSearch search = search_tiles(topology, {.ccl = bench.ccl()}, input,
                                         [&] { bench.run().throw_if_interrupted(); });
  input.tile = search.best.tile;
  return search;
}

void note_search(Bench& bench, const TileSearch& search) {
  bench.note("tile search",
             fmt::format("{} tiles fit, {} simulated; the estimate's choice, {}, takes {:.3f} us, "
                         "{:.3f} of the best",
                         search.tiles, search.simulated, sides_of(search.chosen.tile),
                         to_ns(search.chosen.time) * 1e-3, search.chosen_over_best()));
}

void add_search(Row& cells, const TileSearch& search) {
  cells.set("tiles", search.tiles)
      .set("tiles_simulated", search.simulated)
      .set("chosen_tile_m", search.chosen.tile.m)
      .set("chosen_tile_n", search.chosen.tile.n)
      .set("chosen_tile_k", search.chosen.tile.k)
      .set("chosen_time_ns", to_ns(search.chosen.time))
      .set("chosen_over_best", search.chosen_over_best());
}

void run_gemm_bench(Bench& bench) {
  GemmInput input = read_input(bench);
  const Topology topology = read_topology(bench);
  const std::optional<TileSearch> search = search_if_asked(bench, topology, input);
  const auto torch =
      bench.make_context(topology, {.ccl = bench.ccl(), .data = bench.settings().flag("check")});
  const GemmRow row = run_gemm(*torch, input);
  note_what_ran(bench, topology, row);
  if (search) note_search(bench, *search);
  Row cells = to_row(row);
  if (search) add_search(cells, *search);
  bench.print(to_text(cells, bench.run().console));
  bench.print("# time: from the first PE's start to the last PE's end, without the launch\n");
  bench.add_row(cells, row.wrong.value_or(0) == 0);
}

}  // namespace

BenchInfo gemm_bench() {
  return {"gemm",
          "one matrix product by tl.composite beside its roofline, every element checked",
          {{"m", "1024", "rows of a and c", SettingType::integer},
           {"n", "1024", "columns of b and c", SettingType::integer},
           {"k", "1024", "columns of a, rows of b", SettingType::integer},
           {"dtype", "f16", "f16, bf16, f32; f8e4m3fn, f8e5m2, with c in bf16", SettingType::name},
           {"on", "pe", "who works: pe, cube, sip or all", SettingType::name},
           {"sip", "", "how SIPs cut c: row_wise, column_wise; else its longer side",
            SettingType::name},
           {"cube", "", "how cubes cut what their SIP has, likewise", SettingType::name},
           {"pe", "", "how PEs cut what their cube has, likewise", SettingType::name},
           {"pes", "", "PEs of each cube, the first so many; else all", SettingType::integer},
           {"dataflow", "",
            "of the array: output_stationary, weight_stationary or "
            "input_stationary; else the topology's",
            SettingType::name},
           {"tile", "estimate",
            "who chooses sides of a tile that are not given: estimate, or search, which simulates "
            "each and says how far the estimate is off",
            SettingType::name},
           {"tile_m", "", "rows of a tile; else chosen", SettingType::integer},
           {"tile_n", "", "columns of a tile; else chosen", SettingType::integer},
           {"tile_k", "", "depth of a tile; else chosen", SettingType::integer},
           {"check", "true", "false: times only, no values", SettingType::flag}},
          run_gemm_bench,
          nullptr,
          BenchRanks::own};
}

}  // namespace kernbench::benches::gemm
