#include "sim_engine/components/tile_estimate.h"

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "sim_engine/base/ceil_divide.h"
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

// The time of loads and stores on their ways.
//
// Tiles of the result go row by row, so that a tile of a is needed again when the cube's PEs have
// gone on by one tile along n, and one of b when they have gone through all of n.  SRAM keeps it if
// what is loaded meanwhile fits.  Cubes take a tile from each other only as long as it stays where
// it lies: there must be room for two steps of this cube's PEs, and for as much that others ask
// for.
class TimeOnWays {
 public:
  TimeOnWays(const CompositePlan& plan, const WaysOfTiles& ways) : plan_(plan), ways_(ways) {
    if (!plan.a.is_shared() && !plan.b.is_shared()) return;
    const auto& [m, n, k] = plan.tile;
    const auto in_sram = [&](const OperandAt& operand, std::int64_t side, std::int64_t depth) {
      const Bytes bytes = side * depth * size_of(operand.buffer.dtype);
      return operand.is_shared() ? bytes * ways.pes_in_cube / operand.readers.in_cube : 0;
    };
    const Bytes of_a = in_sram(plan.a, m, plan.size.k);
    keeps_a_ = of_a + in_sram(plan.b, n, plan.size.k) <= ways.sram_capacity;
    keeps_b_ = of_a + in_sram(plan.b, plan.size.n, plan.size.k) <= ways.sram_capacity;
    cubes_share_ = 4 * (in_sram(plan.a, m, k) + in_sram(plan.b, n, k)) <= ways.sram_capacity;
  }

  // Returns the time of bytes that steps in the middle of the composite move.
  Wide of(const LoadedBytes& parts) const {
    const GemmSize counts = tile_counts(plan_.size, plan_.tile);
    return longer(parts, {keeps_a_ ? counts.n : 1, keeps_b_ ? counts.m : 1});
  }
  // Returns the time of bytes that no PE has loaded before.
  Wide of_first(const LoadedBytes& parts) const { return longer(parts, {1, 1}); }
  // Returns the time in which HBM gives the operands of the first row of tiles.
  Wide of_first_row() const {
    const auto& [m, n, k] = plan_.size;
    const Wide of_a = Wide{plan_.tile.m} * k * size_of(plan_.a.buffer.dtype);
    const Wide of_b = Wide{n} * k * size_of(plan_.b.buffer.dtype);
    return to_picoseconds(moved(plan_.a, of_a, 1).from_hbm + moved(plan_.b, of_b, 1).from_hbm,
                          ways_.hbm.bandwidth);
  }
  Time latency() const {
    const bool uses_sram = plan_.a.is_shared() || plan_.b.is_shared();
    return uses_sram ? std::max(ways_.hbm.latency, ways_.sram.latency) : ways_.hbm.latency;
  }

 private:
  // The number of times that a PE loads each tile of an operand while SRAM keeps it: HBM serves the
  // first load, and SRAM the others.
  struct Loads {
    std::int64_t of_a = 1;
    std::int64_t of_b = 1;
  };
  // A PE's part of the bytes that HBM and SRAM move for the tiles of an operand.
  struct Moved {
    Wide from_hbm = 0;
    Wide at_sram = 0;  // read by PEs, written as tiles come, and read by other cubes
  };

  Moved moved(const OperandAt& operand, Wide bytes, std::int64_t loads) const {
    if (!operand.is_shared()) return {bytes, 0};
    const auto& [in_cube, in_launch] = operand.readers;
    const Wide written = bytes / loads / in_cube;
    const Wide for_other_cubes = written * (in_launch - in_cube) / in_launch;
    const Wide read = cubes_share_ ? bytes / loads / in_launch : written;
    return {read * slices_per_busy_one(operand), bytes + written + for_other_cubes};
  }
  // All PEs go through k in step, so that of an operand whose rows in memory lie along k only the
  // slices of HBM with the rows of two steps are busy at a time.
  Wide slices_per_busy_one(const OperandAt& operand) const {
    const bool has_rows_along_k = operand.is_transposed == (&operand == &plan_.a);
    if (!has_rows_along_k) return 1;
    const std::int64_t slices = 1 + operand.further_transfers();
    const std::int64_t steps = ceil_divide(plan_.size.k, plan_.tile.k);
    return slices / std::clamp<std::int64_t>(ceil_divide(2 * slices, steps), 1, slices);
  }
  Wide longer(const LoadedBytes& parts, const Loads& loads) const {
    const Moved a = moved(plan_.a, parts.a, loads.of_a);
    const Moved b = moved(plan_.b, parts.b, loads.of_b);
    return std::max(to_picoseconds(a.from_hbm + b.from_hbm + parts.rest, ways_.hbm.bandwidth),
                    to_picoseconds(a.at_sram + b.at_sram, ways_.sram.bandwidth));
  }

  const CompositePlan& plan_;
  const WaysOfTiles& ways_;
  bool keeps_a_ = false;
  bool keeps_b_ = false;
  bool cubes_share_ = false;
};

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
Wide time_of_steps(const CompositePlan& plan, const Topology::Pe& pe, const TimeOnWays& on_ways) {
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
        return on_ways.of({Wide{k} * m * of_a, Wide{k} * n * of_b});
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

Promise make_promise(const CompositePlan& plan, const Topology::Pe& pe, const WaysOfTiles& ways) {
  CompositePlan one = plan;  // of its tiles
  one.size = plan.tile;
  const TimeOnWays on_ways(plan, ways);
  const GemmSize counts = tile_counts(plan.size, plan.tile);
  const Bytes stored = stored_bytes(plan);
  const LoadedBytes loaded = count_loaded(plan);
  LoadedBytes at_ends = count_loaded(one);
  at_ends.rest += stored_bytes(one);
  const Wide ends = on_ways.of_first(at_ends);
  const Wide last = tile_cost(plan, plan.tile, pe.gemm).time(pe);
  const Wide products = sum_tile_costs(plan, pe.gemm).time(pe);
  const Wide loads = on_ways.of(loaded);
  const Wide latencies = Wide{counts.m} * counts.n * counts.k * on_ways.latency().count();
  const Wide all = on_ways.of({loaded.a, loaded.b, loaded.rest + stored});
  const Wide setups = count_loads(plan) * pe.dma_setup.count();
  const Wide steps = time_of_steps(plan, pe, on_ways);
  const Wide waits_for_b = std::max(on_ways.of_first_row() - steps / counts.m, Wide{0});
  const Wide time = std::max(
      {steps + waits_for_b + ends, all + last, setups + last, (products + loads + latencies) / 2});
  return {time, loaded_bytes(plan) + stored};
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

std::optional<GemmSize> choose_tile(const CompositePlan& plan, const GemmSize& wanted,
                                    const Topology::Pe& pe, const WaysOfTiles& ways,
                                    Bytes scratch) {
  struct Candidate {
    GemmSize tile;
    Promise promise;
  };
  std::vector<Candidate> fitting;
  CompositePlan tried = plan;
  const auto consider = [&](const GemmSize& tile) {
    tried.tile = tile;
    if (working_set(tried) <= scratch) fitting.push_back({tile, make_promise(tried, pe, ways)});
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
