// ADR-0044: theory and simulator agree, and the theory has the closed forms that it claims.

#include "benches/evaluation/gemm_model.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "benches/evaluation/gemm_evaluation.h"
#include "benches/gemm/gemm_run.h"
#include "test/support/small_topology.h"

namespace kernbench::test::gemm_model_test {
namespace {

using namespace benches;

gemm::GemmRow simulated(const Topology& topology, const gemm::GemmInput& input) {
  RuntimeContext torch(topology, {.data = false});
  return gemm::run_gemm(torch, input);
}

void check_equal(const Topology& topology, const gemm::GemmInput& input) {
  const gemm::GemmRow row = simulated(topology, input);
  const evaluation::GemmPrediction theory = evaluation::predict(topology, row);
  CAPTURE(topology.name, input.size.m, input.size.n, input.size.k, row.tile.m, row.tile.n,
          row.tile.k);
  CHECK(row.time == theory.time);
  CHECK(row.window == theory.window);
  CHECK(row.gemm_count == theory.gemm_count);
  CHECK(row.hbm_loaded == theory.hbm_loaded);
  CHECK(row.hbm_stored == theory.hbm_stored);
}

// The array of zero_overhead at 1 GHz: nothing else takes time.
TEST_CASE("where only the array takes time it is the sum of its tiles' cycles", "[gemm_model]") {
  Topology topology = load_topology("zero_overhead");
  topology.pe.gemm.clock = Frequency{1'000'000'000};
  const gemm::GemmInput input{.size = {100, 70, 300}, .tile = {64, 32, 100}};
  // Tiles: 64 and 36 rows, both two folds; 32, 32 and 6 columns, one fold each; k in threes.
  const Time expected{2 * 3 * 3 * 2 * (100 + 62) * 1000};
  CHECK(simulated(topology, input).time == expected);
  check_equal(topology, input);
}

// Tiles [10, 25] x [25, 10] of f32 on round_topology(): 1000 B each, 50 ns at 20 GB/s; the way is
// 53 ns; a result is 400 B.  A product of 25 folds of 27 cycles on 2 x 2 multipliers at 1 GHz.
TEST_CASE("equal steps take the closed form, whichever is slower", "[gemm_model]") {
  Topology topology = round_topology();
  const bool is_slow_array = GENERATE(true, false);
  if (is_slow_array) {
    topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  }
  const std::int64_t count = GENERATE(1, 2, 3, 10);
  const gemm::GemmInput input{
      .size = {10, 10, 25 * count}, .dtype = DType::f32, .tile = {10, 10, 25}};
  const Time expected =
      evaluation::closed_form({.count = count,
                               .product = Time{is_slow_array ? 25 * 27 * 1000 : 0},
                               .loads = Time{100'000},
                               .fill = Time{53'000},
                               .drain = Time{53'000 + 20'000}});
  CHECK(simulated(topology, input).time == expected);
  check_equal(topology, input);
}

// A load leaves when the product two before has ended: two steps take a way, its loads and a
// product.  Here the way is 10,003 ns.
TEST_CASE("where the way is long two steps take a way, its loads and a product", "[gemm_model]") {
  Topology topology = round_topology();
  topology.cube.hbm.latency = Time{10'000'000};
  topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  const std::int64_t pairs = GENERATE(1, 2, 5);
  const gemm::GemmInput input{
      .size = {10, 10, 25 * (2 * pairs - 1)}, .dtype = DType::f32, .tile = {10, 10, 25}};
  const Time way{10'003'000};
  const Time expected = pairs * (way + Time{100'000} + Time{25 * 27 * 1000}) + way + Time{20'000};
  CHECK(simulated(topology, input).time == expected);
  check_equal(topology, input);
}

// 16 products of 8 folds that overlap, 8 * 256 + 62 cycles at 1.5 GHz, 1406.667 ns.  Two tiles, of
// 64 and 32 KiB, come at 102.4 GB/s in 960 ns.  The way is 120 + 4 + 2 ns; a result of 16 KiB takes
// 160 ns.  2 ns each for PE_CPU, the composite's dispatch, the loads', the product's and the
// store's; setup 10, a page 4.
TEST_CASE("the closed form with the overheads of default.yaml, by hand", "[gemm_model]") {
  Topology topology = load_topology("default");
  topology.cube.hbm.efficiency = {};  // 102.4 GB/s
  const gemm::GemmInput input{.size = {128, 64, 4096}, .tile = {128, 64, 256}};
  const Time expected =
      Time{2'000 + 2'000} +
      evaluation::closed_form({.count = 16,
                               .product = Time{1'406'667},
                               .loads = Time{960'000},
                               .fill = Time{2'000 + 10'000 + 4'000 + 126'000 + 2'000},
                               .drain = Time{2'000 + 10'000 + 4'000 + 126'000 + 160'000}});
  CHECK(simulated(topology, input).time == expected);
  check_equal(topology, input);
}

TEST_CASE("theory and simulator are equal to the picosecond: sizes, tiles, types, dataflows",
          "[gemm_model]") {
  Topology topology = load_topology(GENERATE(std::string("default"), "tiny", "ring_1d_6"));
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  for (const DType dtype : kDTypes) {
    for (const sim::GemmSize& size : {sim::GemmSize{1, 1, 1},
                                      {1, 999, 1500},
                                      {777, 1, 200},
                                      {500, 500, 1},
                                      {123, 457, 789},
                                      {256, 2048, 64}}) {
      for (const sim::GemmSize& tile :
           {sim::GemmSize{}, {32, 32, 32}, {16, 100, 64}, {64, 48, 0}, {7, 500, 11}}) {
        check_equal(topology, {.size = size, .dtype = dtype, .tile = tile});
      }
    }
  }
}

TEST_CASE("and where the ports of TCM are slower than the array", "[gemm_model][tcm]") {
  Topology topology = load_topology("default");
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  topology.pe.tcm.compute_bandwidth = Bandwidth{GENERATE(20, 150) * std::int64_t{1'000'000'000}};
  for (const DType dtype : kDTypes) {
    for (const sim::GemmSize& tile : {sim::GemmSize{32, 32, 32}, {64, 48, 0}, {7, 500, 11}}) {
      check_equal(topology, {.size = {123, 457, 789}, .dtype = dtype, .tile = tile});
    }
  }
}

TEST_CASE("where setup, translation and ways are long, too", "[gemm_model]") {
  Topology topology = load_topology("default");
  topology.pe.dma_setup = Time{GENERATE(0, 700'000)};
  topology.pe.mmu_latency = Time{GENERATE(0, 90'000)};
  topology.pe.mmu_page = 1 << 16;
  topology.cube.noc.bandwidth = Bandwidth{GENERATE(20, 5000) * std::int64_t{1'000'000'000}};
  for (const sim::GemmSize& tile : {sim::GemmSize{32, 32, 32}, {64, 64, 512}, {8, 200, 64}}) {
    check_equal(topology, {.size = {200, 400, 600}, .tile = tile});
  }
}

// PEs that share operands wait for each other, and for HBM.  Each element of a and b is loaded once
// if SRAM holds both, which it does here.
TEST_CASE("where PEs share operands theory is a lower bound", "[gemm_model]") {
  Topology topology = load_topology("default");
  if (GENERATE(false, true)) topology.cube.hbm.channels = topology.cube.hbm.slices = 8;
  const gemm::GemmOn on = GENERATE(gemm::GemmOn::cube, gemm::GemmOn::sip, gemm::GemmOn::all);
  for (const sim::GemmSize& size :
       {sim::GemmSize{1, 4096, 512}, {2048, 300, 129}, {512, 512, 512}, {16'384, 64, 32}}) {
    CAPTURE(size.m, size.n, size.k, static_cast<int>(on));
    const gemm::GemmRow row = simulated(topology, {.size = size, .placement = {.on = on}});
    const evaluation::GemmPrediction theory = evaluation::predict(topology, row);
    CHECK(row.time > theory.time);
    CHECK(row.time < 4 * theory.time);
    CHECK(row.gemm_count == theory.gemm_count);
    CHECK(row.hbm_stored == theory.hbm_stored);
    if (on != gemm::GemmOn::all) CHECK(row.hbm_loaded == theory.hbm_loaded);
  }
}

}  // namespace
}  // namespace kernbench::test::gemm_model_test
