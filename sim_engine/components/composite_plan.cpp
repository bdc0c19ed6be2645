#include "sim_engine/components/composite_plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "sim_engine/base/ceil_divide.h"
#include "sim_engine/base/enum_names.h"
#include "sim_engine/base/units.h"
#include "sim_engine/components/gemm_array.h"

namespace kernbench::sim {

namespace {

// Times within 1/64 count as equal, since the estimates are no more exact than that.
constexpr Wide kTolerance = 64;

// The cut of one dimension: `whole_count` whole tiles, and the rest.
struct Cut {
  std::int64_t whole_count;
  std::int64_t whole;
  std::int64_t rest;

  Cut(std::int64_t size, std::int64_t tile)
      : whole_count(size / tile), whole(tile), rest(size % tile) {}
};

// Calls use(tile size, number of tiles of that size).
template <class Use>
void for_each_kind(const Cut& cut, const Use& use) {
  if (cut.whole_count > 0) use(cut.whole, cut.whole_count);
  if (cut.rest > 0) use(cut.rest, std::int64_t{1});
}

template <class Unit>
Wide to_picoseconds(Wide count, Rate<Unit> rate) {
  return rate.is_unlimited() ? Wide{0} : count * kPicosecondsPerSecond / rate.per_second;
}

// The cost of products on PE_GEMM: cycles of its array, and bytes over its two ports of TCM.
struct Products {
  Wide cycles = 0;
  Wide read = 0;
  Wide written = 0;

  Wide time(const Topology::Pe& pe) const {
    const Bandwidth port = pe.tcm.compute_bandwidth;
    return std::max({to_picoseconds(cycles, pe.gemm.clock), to_picoseconds(read, port),
                     to_picoseconds(written, port)});
  }
};

// The product of one tile.  Where k is cut, all count as if they added to the sums before them,
// which are f32.
Products tile_cost(const CompositePlan& plan, const GemmSize& tile, const GemmSpec& array) {
  const bool adds = plan.tile.k < plan.size.k;
  const DType sums = adds ? DType::f32 : plan.c.buffer.dtype;
  const auto use = gemm_array_use(array, tile);
  const ComputeTraffic traffic =
      gemm_traffic(array, tile,
                   {size_of(plan.a.buffer.dtype), size_of(plan.b.buffer.dtype), size_of(sums),
                    adds ? tile.m * tile.n * size_of(sums) : 0});
  return {use ? use->cycles : 0, traffic.read, traffic.written};
}

// The products of all tiles, one after the other.
Products sum_tile_costs(const CompositePlan& plan, const GemmSpec& array) {
  Products all;
  for_each_kind(Cut(plan.size.m, plan.tile.m), [&](std::int64_t m, std::int64_t m_count) {
    for_each_kind(Cut(plan.size.n, plan.tile.n), [&](std::int64_t n, std::int64_t n_count) {
      for_each_kind(Cut(plan.size.k, plan.tile.k), [&](std::int64_t k, std::int64_t k_count) {
        const Products one = tile_cost(plan, {m, n, k}, array);
        const Wide count = Wide{m_count} * n_count * k_count;
        all.cycles += count * one.cycles;
        all.read += count * one.read;
        all.written += count * one.written;
      });
    });
  });
  return all;
}

// The time of all steps in sequence.  A step takes at least as long as the next step's loads: a
// short last step along k does not hide the loads of a whole slab.
Wide time_of_steps(const CompositePlan& plan, const Topology::Pe& pe, const LinkSpec& way) {
  const Bytes of_a = size_of(plan.a.buffer.dtype);
  const Bytes of_b = size_of(plan.b.buffer.dtype);
  const Cut along_k(plan.size.k, plan.tile.k);
  Wide time = 0;
  for_each_kind(Cut(plan.size.m, plan.tile.m), [&](std::int64_t m, std::int64_t m_count) {
    for_each_kind(Cut(plan.size.n, plan.tile.n), [&](std::int64_t n, std::int64_t n_count) {
      const auto product = [&](std::int64_t k) {
        return tile_cost(plan, {m, n, k}, pe.gemm).time(pe);
      };
      const auto load = [&](std::int64_t k) {
        return to_picoseconds(Wide{k} * (m * of_a + n * of_b), way.bandwidth);
      };
      const Wide slab = product(along_k.whole);
      const Wide next_slab = load(along_k.whole);
      Wide result = along_k.whole_count * std::max(slab, next_slab);
      if (along_k.rest > 0) {
        result -= std::max(slab, next_slab);
        result += std::max(slab, load(along_k.rest)) + std::max(product(along_k.rest), next_slab);
      }
      time += result * m_count * n_count;
    });
  });
  return time;
}

// Candidate tile sizes of one dimension, largest first.
std::vector<std::int64_t> candidates(std::int64_t size, std::int64_t side, std::int64_t wanted) {
  if (wanted > 0) return {std::min(wanted, size)};
  std::vector<std::int64_t> sizes = {1};
  for (std::int64_t count = 1; count <= 16; ++count) {
    const std::int64_t even = ceil_divide(size, count);
    sizes.push_back(std::min(size, ceil_divide(even, side) * side));
  }
  for (std::int64_t multiple = side; multiple < size; multiple *= 2) sizes.push_back(multiple);
  std::ranges::sort(sizes, std::greater<>());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

// The estimated time of a tiling, see choose_tile(), and the bytes it moves.
struct Promise {
  Wide time;
  Bytes moved;
};

Promise make_promise(const CompositePlan& plan, const Topology::Pe& pe, const LinkSpec& way) {
  CompositePlan one = plan;  // of its tiles
  one.size = plan.tile;
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  const Bytes moved = loaded_bytes(plan) + stored_bytes(plan);
  const Wide ends = to_picoseconds(Wide{loaded_bytes(one)} + stored_bytes(one), way.bandwidth);
  const Wide last = tile_cost(plan, plan.tile, pe.gemm).time(pe);
  const Wide products = sum_tile_costs(plan, pe.gemm).time(pe);
  const Wide loads = to_picoseconds(Wide{loaded_bytes(plan)}, way.bandwidth);
  const Wide latencies = Wide{counts.m} * counts.n * counts.k * way.latency.count();
  const Wide time = std::max({time_of_steps(plan, pe, way) + ends,
                              to_picoseconds(Wide{moved}, way.bandwidth) + last,
                              (products + loads + latencies) / 2});
  return {time, moved};
}

// The longest k that fits beside m and n, and the sizes that cut k evenly into the same number of
// parts, into twice and into four times as many; 0 if no k fits.
std::array<std::int64_t, 4> candidates_of_k(CompositePlan plan, std::int64_t rows, Bytes scratch) {
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
  const std::int64_t count = ceil_divide(plan.size.k, fits);
  return {fits, ceil_divide(plan.size.k, count), ceil_divide(plan.size.k, 2 * count),
          ceil_divide(plan.size.k, 4 * count)};
}

}  // namespace

std::vector<MemoryUse> list_memory_uses(const CompositePlan& plan) {
  const auto& [m, n, k] = plan.size;
  const auto use = [](const MatrixAt& matrix, std::int64_t rows, std::int64_t columns,
                      bool writes) -> MemoryUse {
    return {matrix.buffer.region, matrix.block(0, 0, rows, columns).simplified(), writes};
  };
  std::vector<MemoryUse> uses = {use(plan.a, m, k, false), use(plan.b, k, n, false),
                                 use(plan.c, m, n, true)};
  if (plan.bias) uses.push_back(use(*plan.bias, 1, n, false));
  return uses;
}

GemmSize tile_counts(const GemmSize& size, const GemmSize& tile) {
  return {ceil_divide(size.m, tile.m), ceil_divide(size.n, tile.n), ceil_divide(size.k, tile.k)};
}

std::int64_t part_count(const CompositePlan& plan) {
  constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  const Wide each = 3 * Wide{counts.k} + 1 + (plan.bias ? 1 : 0) + (plan.has_epilogue() ? 1 : 0);
  return static_cast<std::int64_t>(std::min(kMost, Wide{counts.m} * counts.n * each));
}

Bytes working_set(const CompositePlan& plan) {
  const GemmSize& tile = plan.tile;
  const GemmSize counts = tile_counts(plan.size, tile);
  const bool is_one_result = counts.m == 1 && counts.n == 1;
  const std::int64_t results = is_one_result ? 1 : 2;
  const std::int64_t operands = is_one_result && counts.k == 1 ? 1 : 2;
  const Bytes of_operands = tile.m * tile.k * size_of(plan.a.buffer.dtype) +
                            tile.k * tile.n * size_of(plan.b.buffer.dtype);
  const Bytes of_result = tile.m * tile.n * size_of(DType::f32);
  const Bytes of_bias = plan.bias ? tile.n * size_of(plan.bias->buffer.dtype) : 0;
  return operands * of_operands + results * (of_result + of_bias);
}

Bytes loaded_bytes(const CompositePlan& plan) {
  const auto& [m, n, k] = plan.size;
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  return m * k * counts.n * size_of(plan.a.buffer.dtype) +
         k * n * counts.m * size_of(plan.b.buffer.dtype) +
         (plan.bias ? n * counts.m * size_of(plan.bias->buffer.dtype) : 0);
}

Bytes stored_bytes(const CompositePlan& plan) {
  return plan.size.m * plan.size.n * size_of(plan.c.buffer.dtype);
}

std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const LinkSpec& way, Bytes scratch) {
  struct Candidate {
    GemmSize tile;
    Promise promise;
  };
  std::vector<Candidate> fitting;
  CompositePlan tried = plan;
  const auto consider = [&](const GemmSize& tile) {
    tried.tile = tile;
    if (working_set(tried) <= scratch) fitting.push_back({tile, make_promise(tried, pe, way)});
  };
  for (const std::int64_t m : candidates(plan.size.m, pe.gemm.rows, wanted.m)) {
    for (const std::int64_t n : candidates(plan.size.n, pe.gemm.columns, wanted.n)) {
      if (wanted.k > 0) {
        consider({m, n, std::min(wanted.k, plan.size.k)});
        continue;
      }
      tried.tile = {m, n, 1};
      for (const std::int64_t k : candidates_of_k(tried, pe.gemm.rows, scratch)) {
        if (k > 0) consider({m, n, k});
      }
    }
  }
  if (fitting.empty()) return std::nullopt;
  const auto time_of_candidate = [](const Candidate& c) { return c.promise.time; };
  const Wide least = std::ranges::min_element(fitting, {}, time_of_candidate)->promise.time;
  const Wide good_enough = least + least / kTolerance;
  std::erase_if(fitting, [&](const Candidate& c) { return c.promise.time > good_enough; });
  const auto moved = [](const Candidate& c) { return c.promise.moved; };
  return std::ranges::min_element(fitting, {}, moved)->tile;  // of equals the first: large tiles
}

}  // namespace kernbench::sim
