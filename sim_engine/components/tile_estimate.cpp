#include "sim_engine/components/tile_estimate.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/units.h"

namespace kernbench::sim {

namespace {

// Times within 1/256 count as equal.  Estimates of one product's tiles are off by a few percent,
// but nearly all by the same.
constexpr Wide kTolerance = 256;

// Candidate tile sizes of one dimension, largest first.
std::vector<std::int64_t> candidates(std::int64_t size, std::int64_t side, std::int64_t wanted) {
  if (wanted > 0) return {std::min(wanted, size)};
  std::vector<std::int64_t> sizes = {1};
  for (std::int64_t count = 1; count <= 16; ++count) {
    const std::int64_t even = ceil_divide(size, count);
    const std::int64_t folds = ceil_divide(even, side);
    sizes.push_back(std::min(size, folds * side));
    if (count * folds == ceil_divide(size, side)) sizes.push_back(even);
  }
  for (std::int64_t multiple = side; multiple < size; multiple *= 2) sizes.push_back(multiple);
  std::ranges::sort(sizes, std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// The longest k that fits beside m and n, and the sizes that cut k evenly into the same number of
// parts, into twice as many, and so on, down to the array's rows; none if no k fits.
std::vector<std::int64_t> candidates_of_k(CompositePlan plan, std::int64_t rows, Bytes scratch) {
  plan.tile.k = plan.size.k;
  std::int64_t fits = working_set(plan) <= scratch ? plan.size.k : 0;
  for (std::int64_t low = 1, high = plan.size.k - 1; fits < plan.size.k && low <= high;) {
    const std::int64_t middle = low + (high - low) / 2;
    plan.tile.k = middle;
    if (working_set(plan) <= scratch) {
      fits = middle;
      low = middle + 1;
    } else {
      high = middle - 1;
    }
  }
  if (fits == 0) return {};
  if (fits < plan.size.k && fits > rows) fits -= fits % rows;
  std::vector<std::int64_t> sizes = {fits};
  for (std::int64_t count = ceil_divide(plan.size.k, fits);; count *= 2) {
    const std::int64_t even = ceil_divide(plan.size.k, count);
    if (even < sizes.back()) sizes.push_back(even);
    if (even <= rows) return sizes;
  }
}

}  // namespace

std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const WaysOfTiles& ways,
                                    Bytes scratch) {
  struct Candidate {
    GemmSize tile;
    Wide time;
    Bytes moved;
  };
  std::vector<Candidate> fitting;
  Wide good_enough = kNoLimit;
  CompositePlan tried = plan;
  const auto consider = [&](const GemmSize& tile) {
    tried.tile = tile;
    if (working_set(tried) > scratch) return;
    const Wide time = estimate_time(tried, pe, ways, good_enough);
    if (time > good_enough) return;
    good_enough = std::min(good_enough, time + time / kTolerance);
    fitting.push_back({tile, time, loaded_bytes(tried) + stored_bytes(tried)});
  };
  for (const std::int64_t m : candidates(plan.size.m, pe.gemm.rows, wanted.m)) {
    for (const std::int64_t n : candidates(plan.size.n, pe.gemm.columns, wanted.n)) {
      if (wanted.k > 0) {
        consider({m, n, std::min(wanted.k, plan.size.k)});
        continue;
      }
      tried.tile = {m, n, 1};
      for (const std::int64_t k : candidates_of_k(tried, pe.gemm.rows, scratch)) {
        consider({m, n, k});
      }
    }
  }
  if (fitting.empty()) return std::nullopt;
  std::erase_if(fitting, [&](const Candidate& c) { return c.time > good_enough; });
  // The first of equals is taken, since large tiles come first.
  return std::ranges::min_element(fitting, {}, &Candidate::moved)->tile;
}

}  // namespace kernbench::sim
