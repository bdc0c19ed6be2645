#include "benches/gemm/tile_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/composite_plan.h"
#include "sim_engine/components/gemm_array.h"

namespace kernbench::benches::gemm {

namespace {

using sim::GemmSize;

struct Candidate {
  GemmSize tile;
  Time products;  // of a PE, one after the other
};

// The sizes of the tiles along a side, with how many there are of each: whole ones, and the rest.
std::array<std::pair<std::int64_t, std::int64_t>, 2> cut(std::int64_t size, std::int64_t tile) {
  return {std::pair{tile, size / tile}, std::pair{size % tile, size % tile > 0 ? 1 : 0}};
}

Time time_of_products(const GemmSpec& array, const GemmSize& size, const GemmSize& tile,
                      DType dtype) {
  std::int64_t cycles = 0;
  for (const auto& [m, m_count] : cut(size.m, tile.m)) {
    for (const auto& [n, n_count] : cut(size.n, tile.n)) {
      for (const auto& [k, k_count] : cut(size.k, tile.k)) {
        const auto use = sim::gemm_array_use(array, {m, n, k}, size_of(dtype));
        if (!use) return Time{std::numeric_limits<std::int64_t>::max()};
        cycles += use->cycles * m_count * n_count * k_count;
      }
    }
  }
  return cycles_time(cycles, array.clock);
}

// The tiles of a share that fit into scratch, those first whose products take least.
std::vector<Candidate> list_candidates(const Topology& topology, const GemmInput& input,
                                       const GemmSize& share) {
  const GemmSpec& array = topology.pe.gemm;
  const auto sides = [](std::int64_t size, std::int64_t fold, std::int64_t wanted) {
    return wanted > 0 ? std::vector{std::min(wanted, size)} : list_tile_sides(size, fold);
  };
  sim::CompositePlan plan;
  plan.size = share;
  plan.a.buffer.dtype = plan.b.buffer.dtype = input.dtype;
  plan.c.buffer.dtype = input.dtype_of_c();
  std::vector<Candidate> candidates;
  for (const std::int64_t m : sides(share.m, array.rows, input.tile.m)) {
    for (const std::int64_t n : sides(share.n, array.columns, input.tile.n)) {
      for (const std::int64_t k : sides(share.k, array.rows, input.tile.k)) {
        plan.tile = {m, n, k};
        if (sim::working_set(plan) > topology.pe.tcm.capacity) break;  // as larger ones do
        candidates.push_back({plan.tile, time_of_products(array, share, plan.tile, input.dtype)});
      }
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::products);
  return candidates;
}

}  // namespace

double TileSearch::chosen_over_best() const {
  return best.time > Time{0} ? to_ns(chosen.time) / to_ns(best.time) : 1;
}

std::vector<std::int64_t> list_tile_sides(std::int64_t size, std::int64_t fold) {
  std::vector<std::int64_t> sides;
  for (std::int64_t count = 1; count <= sim::ceil_divide(size, fold); ++count) {
    const std::int64_t even = sim::ceil_divide(size, count);
    sides.push_back(even);
    sides.push_back(std::min(size, sim::ceil_divide(even, fold) * fold));
  }
  std::ranges::sort(sides);
  sides.erase(std::unique(sides.begin(), sides.end()), sides.end());
  return sides;
}

TileSearch search_tiles(const Topology& topology, const RuntimeOptions& options,
                        const GemmInput& input, const std::function<void()>& before_each) {
  RuntimeOptions without_values = options;
  without_values.data = false;
  const auto run = [&](const GemmInput& one) {
    before_each();
    RuntimeContext torch(topology, without_values);
    return run_gemm(torch, one);
  };
  const GemmRow first = run(input);
  TileSearch search{.chosen = {first.tile, first.time}, .best = {first.tile, first.time}};
  GemmInput tried = input;
  for (const Candidate& candidate : list_candidates(topology, input, first.shares.front().size)) {
    ++search.tiles;
    if (candidate.products >= search.best.time || candidate.tile == first.tile) continue;
    tried.tile = candidate.tile;
    ++search.simulated;
    if (const Time time = run(tried).time; time < search.best.time) {
      search.best = {candidate.tile, time};
    }
  }
  return search;
}

}  // namespace kernbench::benches::gemm
