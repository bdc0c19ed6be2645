#include "sim_engine/components/gemm_array.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <utility>

namespace kernbench::sim::gemm_array_test {

namespace {

constexpr Dataflow kOs = Dataflow::output_stationary;
constexpr Dataflow kWs = Dataflow::weight_stationary;
constexpr Dataflow kIs = Dataflow::input_stationary;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

GemmSpec array_of(Dataflow dataflow, int rows, int columns) {
  return {.rows = rows, .columns = columns, .dataflow = dataflow, .clock = Frequency{}};
}

std::int64_t cycles_of(Dataflow dataflow, const GemmSize& size, int rows, int columns) {
  return gemm_array_use(array_of(dataflow, rows, columns), size).value().cycles;
}

// The wave front of one fold, cell by cell: a cell gets its first value a cycle after its neighbour
// above or to its left, and works on `steps` of them.  Cycles are numbered from 0.
std::int64_t last_cycle_of_fold(int rows, int columns, std::int64_t steps, std::int64_t load) {
  std::int64_t last = 0;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      last = std::max(last, load + row + column + steps - 1);
    }
  }
  return last;
}

// Counts folds one by one.
std::int64_t cycles_by_counting(Dataflow dataflow, const GemmSize& size, int rows, int columns) {
  const bool output_stays = dataflow == kOs;
  const std::int64_t down = output_stays ? size.m : size.k;
  const std::int64_t across = dataflow == kIs ? size.m : size.n;
  const std::int64_t steps = output_stays ? size.k : dataflow == kWs ? size.m : size.n;
  std::int64_t cycles = 0;
  for (std::int64_t row = 0; row < down; row += rows) {
    for (std::int64_t column = 0; column < across; column += columns) {
      cycles += last_cycle_of_fold(rows, columns, steps, output_stays ? 0 : rows) + 1;
    }
  }
  return cycles;
}

GemmSpec overlapping(GemmSpec array) {
  array.overlap = true;
  return array;
}

// Follows folds that begin as early as they can.  A cell's second register takes what comes down
// its column, or what leaves up it, one value of the column per cycle.  What stays is loaded while
// the fold before works; results leave while the next fold works.
std::int64_t cycles_of_overlapping_folds(Dataflow dataflow, std::int64_t folds, std::int64_t steps,
                                         int rows, int columns) {
  const bool loads = dataflow != kOs;
  std::int64_t column_is_free = 0;  // its second registers
  std::int64_t cells_are_free = 0;  // the first cell, and each other one as much later as its skew
  std::int64_t end = 0;
  for (std::int64_t fold = 0; fold < folds; ++fold) {
    std::int64_t begin = cells_are_free;
    if (loads) {
      begin = std::max(begin, column_is_free + rows);
      column_is_free = begin;  // the cells have taken over what was loaded
    } else {
      begin = std::max(begin, column_is_free - steps);  // the results of the fold before have left
      column_is_free = begin + steps + rows;
    }
    cells_are_free = begin + steps;
    end = begin + last_cycle_of_fold(rows, columns, steps, 0) + 1;
  }
  return end;
}

}  // namespace

TEST_CASE("the array takes the cycles that are published", "[gemm][timing]") {
  CHECK(cycles_of(kOs, {4, 4, 4}, 4, 4) == 10);
  CHECK(cycles_of(kWs, {100, 60, 50}, 4, 4) == 21'450);
  CHECK(cycles_of(kOs, {128, 128, 128}, 32, 32) == 3'040);
  CHECK(cycles_of(kWs, {4096, 4096, 4096}, 128, 128) == 4'585'472);
  CHECK(cycles_of(kOs, {4096, 4096, 4096}, 128, 128) == 4'454'400);
  CHECK(cycles_of(kOs, {1000, 1000, 1000}, 32, 32) == 1'087'488);
}

TEST_CASE("so are its utilizations", "[gemm]") {
  struct Case {
    Dataflow dataflow;
    std::int64_t size;
    int side;
    double percent;
  };
  const auto c = GENERATE(Case{kWs, 4096, 128, 91.47}, Case{kOs, 4096, 128, 94.16},
                          Case{kOs, 1000, 32, 89.80});
  const GemmSpec array = array_of(c.dataflow, c.side, c.side);
  const GemmSize cube{c.size, c.size, c.size};
  const GemmArrayUse use = gemm_array_use(array, cube).value();
  CHECK(gemm_utilization(array, cube, use) * 100 == Approx(c.percent).margin(0.005));
}

TEST_CASE("a fold fills the array once", "[gemm]") {
  CHECK(gemm_array_use(array_of(kOs, 32, 16), {33, 17, 1}).value().folds == 2 * 2);
  CHECK(gemm_array_use(array_of(kOs, 32, 16), {32, 16, 999}).value().folds == 1);
  CHECK(gemm_array_use(array_of(kWs, 32, 16), {999, 17, 33}).value().folds == 2 * 2);
  CHECK(gemm_array_use(array_of(kIs, 32, 16), {17, 999, 33}).value().folds == 2 * 2);
  CHECK(gemm_array_use(array_of(kIs, 32, 16), {16, 999, 32}).value().folds == 1);
}

TEST_CASE("a product smaller than the array still crosses the whole array", "[gemm][timing]") {
  CHECK(cycles_of(kOs, {1, 1, 1}, 32, 16) == 1 + 32 + 16 - 2);
  CHECK(cycles_of(kWs, {1, 1, 1}, 32, 16) == 1 + 2 * 32 + 16 - 2);
  CHECK(cycles_of(kIs, {1, 1, 1}, 32, 16) == 1 + 2 * 32 + 16 - 2);
  CHECK(cycles_of(kOs, {1, 1, 1}, 1, 1) == 1);
}

TEST_CASE("the closed forms equal a count of every cell of every fold", "[gemm][timing]") {
  constexpr std::array<std::int64_t, 5> kSizes = {1, 3, 4, 5, 13};
  constexpr std::array<std::pair<int, int>, 4> kArrays = {{{1, 1}, {4, 4}, {2, 7}, {7, 2}}};
  for (const Dataflow dataflow : kDataflows) {
    for (const auto& [rows, columns] : kArrays) {
      for (const std::int64_t m : kSizes) {
        for (const std::int64_t n : kSizes) {
          for (const std::int64_t k : kSizes) {
            const GemmSize size{m, n, k};
            REQUIRE(cycles_of(dataflow, size, rows, columns) ==
                    cycles_by_counting(dataflow, size, rows, columns));
          }
        }
      }
    }
  }
}

TEST_CASE("folds that overlap take the cycles of their steps, and fill the array once",
          "[gemm][timing]") {
  const auto cycles = [](Dataflow dataflow, const GemmSize& size, int side) {
    return gemm_array_use(overlapping(array_of(dataflow, side, side)), size).value().cycles;
  };
  CHECK(cycles(kOs, {128, 128, 128}, 32) == 16 * 128 + 62);
  CHECK(cycles(kOs, {4096, 4096, 4096}, 128) == 1024 * 4096 + 254);
  CHECK(cycles(kWs, {4096, 4096, 4096}, 128) == 1024 * 4096 + 128 + 254);
  CHECK(cycles(kIs, {64, 1000, 8}, 32) == 1000 + (1000 + 32 + 62));
  // Folds of fewer steps than rows wait for what is loaded, or for results to leave.
  CHECK(cycles(kOs, {1000, 1000, 8}, 32) == 1023 * 32 + 8 + 62);
  CHECK(cycles(kWs, {1, 4096, 32}, 32) == 127 * 32 + 1 + 32 + 62);
  // One fold has nothing to overlap with.
  CHECK(cycles(kOs, {1, 1, 1}, 32) == cycles_of(kOs, {1, 1, 1}, 32, 32));
}

TEST_CASE("folds that overlap begin as early as the registers of the cells allow",
          "[gemm][timing]") {
  for (const Dataflow dataflow : kDataflows) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {4, 4}, {2, 7}, {7, 2}}) {
      for (const GemmSize& size : {GemmSize{1, 1, 1}, GemmSize{13, 5, 3}, GemmSize{3, 13, 40},
                                   GemmSize{40, 3, 13}, GemmSize{8, 8, 8}}) {
        const GemmArrayUse use =
            gemm_array_use(overlapping(array_of(dataflow, rows, columns)), size).value();
        const std::int64_t steps = dataflow == kOs ? size.k : dataflow == kWs ? size.m : size.n;
        REQUIRE(use.cycles ==
                cycles_of_overlapping_folds(dataflow, use.folds, steps, rows, columns));
      }
    }
  }
}

TEST_CASE("on one multiplier every product takes a cycle", "[gemm]") {
  const GemmSpec one = array_of(kOs, 1, 1);
  const GemmArrayUse use = gemm_array_use(one, {7, 11, 13}).value();
  CHECK(use.cycles == 7 * 11 * 13);
  CHECK(gemm_utilization(one, {7, 11, 13}, use) == 1);
}

TEST_CASE("nothing to multiply takes no cycles", "[gemm]") {
  for (const GemmSize& size : {GemmSize{0, 4, 4}, GemmSize{4, 0, 4}, GemmSize{4, 4, 0}}) {
    const GemmArrayUse use = gemm_array_use(array_of(kWs, 4, 4), size).value();
    CHECK(use.cycles == 0);
    CHECK(use.folds == 0);
    CHECK(gemm_utilization(array_of(kWs, 4, 4), size, use) == 0);
  }
}

TEST_CASE("large products are exact, and those beyond 64 bits are told", "[gemm]") {
  constexpr std::int64_t kMillion = 1'000'000;
  // 31,250 folds each way of 10^6 + 62 cycles.
  CHECK(cycles_of(kOs, {kMillion, kMillion, kMillion}, 32, 32) == 31'250LL * 31'250 * 1'000'062);
  CHECK(cycles_of(kOs, {1, 1, kMost}, 1, 1) == kMost);
  CHECK_FALSE(gemm_array_use(array_of(kOs, 1, 2), {1, 1, kMost}));
  CHECK_FALSE(gemm_array_use(array_of(kOs, 1, 1), {kMost, 2, 1}));
  CHECK_FALSE(gemm_array_use(array_of(kIs, 4, 4), {kMost, kMost, kMost}));
  CHECK(gemm_array_use(overlapping(array_of(kOs, 1, 1)), {1, 1, kMost}).value().cycles == kMost);
  CHECK_FALSE(gemm_array_use(overlapping(array_of(kOs, 1, 1)), {2, 1, kMost}));
  CHECK_FALSE(gemm_array_use(overlapping(array_of(kIs, 4, 4)), {kMost, kMost, kMost}));
}

TEST_CASE("a cell adds up several products of elements of 8 bits in a cycle", "[gemm_array]") {
  const Dataflow dataflow = GENERATE(kOs, kWs, kIs);
  const int products = GENERATE(1, 2, 4);
  const std::int64_t k = GENERATE(1, 31, 32, 33, 128);
  GemmSpec array = array_of(dataflow, 8, 16);
  array.f8_per_cell = products;
  const auto use = [&](std::int64_t depth, Bytes element) {
    return gemm_array_use(array, {40, 33, depth}, element).value();
  };
  CHECK(use(k, 1).cycles == use((k + products - 1) / products, 2).cycles);
  CHECK(use(k, 1).folds == use((k + products - 1) / products, 2).folds);
  CHECK(use(k, 4).cycles == use(k, 2).cycles);
}

TEST_CASE("elements of 8 bits cross the ports as often as there are folds", "[gemm_array]") {
  GemmSpec array = array_of(kOs, 8, 8);
  array.f8_per_cell = 2;
  const GemmSize size{16, 24, 32};  // 2 x 3 folds of c
  CHECK(gemm_traffic(array, size, {1, 1, 2, 0}).read == 16 * 32 * 3 + 32 * 24 * 2);
  CHECK(gemm_traffic(array, size, {1, 1, 2, 0}).written == 16 * 24 * 2);
  array.dataflow = kWs;  // 2 x 3 folds of b: 16 of its rows fill 8 rows of the array
  CHECK(gemm_traffic(array, size, {1, 1, 2, 0}).read == 32 * 24 + 16 * 32 * 3 + 16 * 24 * 4);
}

}  // namespace kernbench::sim::gemm_array_test
