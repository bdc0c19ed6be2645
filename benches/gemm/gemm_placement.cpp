#include "benches/gemm/gemm_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/components/routing.h"

namespace kernbench::benches::gemm {

namespace {

using sim::ceil_divide;

// A cube that gives less than this of a and b would cost more latency than its HBM saves: this much
// takes 0.7 us of a cube's HBM on default.yaml.
constexpr Bytes kLeastOfCube = 64 << 10;

struct Allowed {
  int sips;
  int cubes;
  int pes;
};

Allowed find_allowed(const Topology& topology, const GemmPlacement& placement) {
  const GemmOn on = placement.on;
  const bool is_many = on == GemmOn::all || on == GemmOn::sip;
  const int pes = placement.pes == 0 ? topology.pe_count() : placement.pes;
  return {on == GemmOn::all ? topology.system.sip_count : 1, is_many ? topology.cube_count() : 1,
          on == GemmOn::pe ? 1 : pes};
}

// How many of `allowed` holders get a part of so many folds of the array, and bytes of operands.
int count_holders(int allowed, std::int64_t folds, std::int64_t folds_each, std::int64_t bytes,
                  std::int64_t bytes_each) {
  const std::int64_t wanted =
      std::max(ceil_divide(folds, folds_each), ceil_divide(bytes, bytes_each));
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, allowed));
}

}  // namespace

int count_allowed_pes(const Topology& topology, const GemmPlacement& placement) {
  const auto [sips, cubes, pes] = find_allowed(topology, placement);
  return sips * cubes * pes;
}

GemmLevels cut_levels(const Topology& topology, const GemmInput& input) {
  const auto [sips, cubes, pes] = find_allowed(topology, input.placement);
  const GemmSpec& array = topology.pe.gemm;
  sim::GemmSize left = input.size;
  const auto count_folds = [&] {
    return ceil_divide(left.m, array.rows) * ceil_divide(left.n, array.columns);
  };
  const auto count_bytes = [&] { return (left.m + left.n) * left.k * size_of(input.dtype); };
  const auto choose_cut = [&](Level& level, const std::optional<Shard>& wanted) -> std::int64_t& {
    // Columns are cut if both sides are equal, so that b lies with c: with rows cut, all cubes
    // would read the same rows of b, which lie on one cube, at a time.
    level.cut = wanted.value_or(left.m > left.n ? Shard::row_wise : Shard::column_wise);
    return level.cut == Shard::row_wise ? left.m : left.n;
  };
  const auto cut = [&](Level& level, const std::optional<Shard>& wanted, int holders) {
    std::int64_t& side = choose_cut(level, wanted);
    level.holders = holders;
    side = ceil_divide(side, holders);
  };
  GemmLevels levels;
  cut(levels.sips, input.placement.sip,
      count_holders(sips, count_folds(), std::int64_t{cubes} * pes, count_bytes(),
                    kLeastOfCube * cubes));
  cut(levels.cubes, input.placement.cube,
      count_holders(cubes, count_folds(), pes, count_bytes(), kLeastOfCube));
  const std::int64_t side = choose_cut(levels.pes, input.placement.pe);
  const int least = levels.pes.cut == Shard::row_wise ? array.rows : array.columns;
  cut(levels.pes, levels.pes.cut,
      static_cast<int>(std::clamp<std::int64_t>(ceil_divide(side, least), 1, pes)));
  // Where PEs have slices of their own, an operand is cut over them, so that all slices serve it.
  levels.operand_pes = sim::Routing::hbm_slice_count(topology) == 1 ? 1 : pes;
  return levels;
}

std::string describe(const GemmLevels& levels) {
  std::vector<std::string> texts;
  for (const Level* level : {&levels.sips, &levels.cubes, &levels.pes}) {
    if (level->holders > 1) texts.push_back(fmt::format("{}={}", level->name, name_of(level->cut)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

Block cut_for_sip(const GemmLevels& levels, const sim::GemmSize& size, int sip) {
  Block part{0, 0, size.m, size.n};
  const bool by_rows = levels.sips.cut == Shard::row_wise;
  std::int64_t& begin = by_rows ? part.row : part.column;
  std::int64_t& count = by_rows ? part.rows : part.columns;
  const std::int64_t chunk = sim::ceil_divide(count, levels.sips.holders);
  begin = std::min(count, chunk * sip);
  count = std::min(chunk, count - begin);
  return part;
}

GemmPolicies make_policies(const GemmLevels& levels) {
  const auto once = [&](Shard cube) -> DPPolicy {
    return {.cube = cube,
            .pe = Shard::row_wise,
            .num_cubes = levels.cubes.holders,
            .num_pes = levels.operand_pes};
  };
  return {.a = once(Shard::row_wise),
          .b = once(levels.cubes.cut),
          .c = {.cube = levels.cubes.cut,
                .pe = levels.pes.cut,
                .num_cubes = levels.cubes.holders,
                .num_pes = levels.pes.holders}};
}

}  // namespace kernbench::benches::gemm
