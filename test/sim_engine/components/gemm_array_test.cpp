#include "sim_engine/components/gemm_array.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <limits>

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
}

}  // namespace kernbench::sim::gemm_array_test
