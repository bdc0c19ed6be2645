// run_gemm(): every placement computes the product, and its bounds are those by hand.

#include "benches/gemm/gemm_run.h"

#include <catch2/catch.hpp>

#include "benches/bench/inputs.h"
#include "test/support/error_text.h"

namespace kernbench::test::gemm_run_test {
namespace {

using namespace benches;

gemm::GemmRow run(const gemm::GemmInput& input, bool data = true,
                  const Topology& topology = load_topology("default")) {
  RuntimeContext torch(topology, {.data = data});
  return gemm::run_gemm(torch, input);
}

TEST_CASE("whoever works and however c is cut, the product is exact", "[gemm_run]") {
  const gemm::GemmOn on =
      GENERATE(gemm::GemmOn::pe, gemm::GemmOn::cube, gemm::GemmOn::sip, gemm::GemmOn::all);
  const Shard sip = GENERATE(Shard::row_wise, Shard::column_wise);
  const Shard cube = GENERATE(Shard::row_wise, Shard::column_wise);
  const Shard pe = GENERATE(Shard::row_wise, Shard::column_wise);
  const gemm::GemmRow row =
      run({.size = {131, 67, 45}, .placement = {.on = on, .sip = sip, .cube = cube, .pe = pe}});
  CHECK(row.wrong == 0);
  CHECK(row.pes == (on == gemm::GemmOn::pe     ? 1
                    : on == gemm::GemmOn::cube ? 8
                    : on == gemm::GemmOn::sip  ? 128
                                               : 256));
  // Shares tile c: no element is left out or computed twice.
  std::int64_t elements = 0;
  for (const gemm::GemmShare& share : row.shares) elements += share.size.m * share.size.n;
  CHECK(elements == 131 * 67);
}

TEST_CASE("odd sizes, single rows and columns, every type and dataflow", "[gemm_run]") {
  Topology topology = load_topology("default");
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  const DType dtype = GENERATE(DType::f16, DType::bf16, DType::f32);
  for (const sim::GemmSize& size :
       {sim::GemmSize{1, 1, 1}, {1, 513, 77}, {513, 1, 77}, {33, 31, 1}, {97, 101, 1031}}) {
    CHECK(run({.size = size, .dtype = dtype}, true, topology).wrong == 0);
    CHECK(
        run({.size = size, .dtype = dtype, .placement = {.on = gemm::GemmOn::cube}}, true, topology)
            .wrong == 0);
  }
}

// 2^30 products at 1024 a cycle of 1.5 GHz are 699,050,666.67 ps; tiles of 64 x 64 load a and b 16
// times each.  One pass over 3 * 2 MiB at 92.16 GB/s takes 68,266,666.67 ps.
TEST_CASE("bounds and traffic of a square product by hand", "[gemm_run]") {
  const gemm::GemmRow row = run({.size = {1024, 1024, 1024}, .tile = {64, 64, 1024}}, false);
  CHECK(row.compute_bound == Time{699'050'666});
  CHECK(row.memory_bound == Time{68'266'666});
  CHECK(row.bound() == "compute");
  CHECK(row.roofline() == row.compute_bound);
  CHECK(row.peak_tflops == Approx(3.072));
  CHECK(row.hbm_gbs == Approx(92.16));
  CHECK(row.hbm_loaded == 2 * 16 * 1024 * 1024 * 2);
  CHECK(row.hbm_stored == 1024 * 1024 * 2);
  CHECK(row.gemm_count == 16 * 16);
  CHECK(row.time > row.roofline());
  CHECK(row.window < row.time);
  CHECK(row.tflops() == Approx(2 * 1.073741824e9 / to_ns(row.time) / 1e3));
  CHECK_FALSE(row.wrong.has_value());
}

// Operands of 2 MiB: 32 columns of folds read all of a, and 32 rows all of b.  Where b stays, it is
// read once, and sums of 4 MiB are read again for 31 of 32 parts of k.  A byte takes 100 ps.
TEST_CASE("a product is bound by the ports of TCM, by hand", "[gemm_run]") {
  Topology topology = load_topology("default");
  topology.pe.tcm.compute_bandwidth = Bandwidth{10'000'000'000};
  const gemm::GemmInput input{.size = {1024, 1024, 1024}};
  const gemm::GemmRow row = run(input, false, topology);
  CHECK(row.bound() == "tcm");
  CHECK(row.roofline() == Time{std::int64_t{(32 + 32) * 2} * 1024 * 1024 * 100});
  CHECK(row.time > row.roofline());
  topology.pe.gemm.dataflow = Dataflow::weight_stationary;
  CHECK(run(input, false, topology).roofline() ==
        Time{std::int64_t{32 * 2 + 2 + 31 * 4} * 1024 * 1024 * 100});
}

// run_gemm() checks that none is faster than its roofline.
TEST_CASE("no tile makes less cross the ports of TCM than the roofline says", "[gemm_run]") {
  Topology topology = load_topology("default");
  topology.pe.tcm.compute_bandwidth = Bandwidth{1'000'000'000};
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  for (const sim::GemmSize& tile : {sim::GemmSize{}, {97, 101, 131}, {31, 33, 17}, {1, 64, 131}}) {
    CHECK(run({.size = {97, 101, 131}, .tile = tile}, false, topology).bound() == "tcm");
  }
}

TEST_CASE("through narrow ports of TCM tiles are chosen that cross them less", "[gemm_run]") {
  Topology topology = load_topology("default");
  topology.pe.gemm.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                                       Dataflow::input_stationary);
  const gemm::GemmInput input{.size = {1024, 1024, 1024}};
  const sim::GemmSize wide = run(input, false, topology).tile;
  topology.pe.tcm.compute_bandwidth = Bandwidth{100'000'000'000};
  const gemm::GemmRow row = run(input, false, topology);
  const gemm::GemmRow as_before = run({.size = input.size, .tile = wide}, false, topology);
  CHECK(row.bound() == "tcm");
  CHECK(row.time < as_before.time);
  CHECK(to_ns(row.time) <= 1.02 * to_ns(row.roofline()));
}

// a has 4096 elements, b 4096 x 4096 and c 4096, each of which crosses HBM's port once.
TEST_CASE("a matrix-vector product is bound by memory, by the slice of its PEs", "[gemm_run]") {
  const gemm::GemmRow row =
      run({.size = {1, 4096, 4096}, .placement = {.on = gemm::GemmOn::cube}}, false);
  CHECK(row.cut == "pe=column_wise");
  CHECK(row.bound() == "memory");
  CHECK(row.hbm_gbs == Approx(92.16));
  CHECK(row.memory_bound == Time{std::int64_t{4096 + 4096 * 4096 + 4096} * 2 * 100'000 / 9216});
}

TEST_CASE("half of a cube's PEs have half of its peak", "[gemm_run]") {
  const gemm::GemmRow row =
      run({.size = {128, 64, 64}, .placement = {.on = gemm::GemmOn::cube, .pes = 4}}, false);
  CHECK(row.pes == 4);
  CHECK(row.shares.size() == 4);
  CHECK(row.peak_tflops == Approx(4 * 3.072));
}

TEST_CASE("a product is not slower on more PEs, and loads no element twice", "[gemm_run]") {
  const std::int64_t side = GENERATE(64, 100, 512, 1000, 2048);
  std::optional<gemm::GemmRow> fewer;
  for (const gemm::GemmPlacement& placement : {gemm::GemmPlacement{},
                                               {.on = gemm::GemmOn::cube, .pes = 2},
                                               {.on = gemm::GemmOn::cube, .pes = 4},
                                               {.on = gemm::GemmOn::cube},
                                               {.on = gemm::GemmOn::sip}}) {
    const gemm::GemmRow row = run({.size = {side, side, side}, .placement = placement}, false);
    CAPTURE(side, static_cast<int>(placement.on), placement.pes);
    if (fewer) {
      CHECK(row.time <= fewer->time);
      CHECK(row.hbm_bytes() == 3 * side * side * 2);
    }
    fewer = row;
  }
}

// Large products reach most of the default machine's peak, or of its HBM.
TEST_CASE("large products use the whole SIP", "[gemm_run]") {
  const auto share_of_roof = [](const sim::GemmSize& size, gemm::GemmOn on) {
    const gemm::GemmRow row = run({.size = size, .placement = {.on = on}}, false);
    return to_ns(row.roofline()) / to_ns(row.time);
  };
  CHECK(share_of_roof({2048, 2048, 2048}, gemm::GemmOn::cube) > 0.85);
  CHECK(share_of_roof({4096, 4096, 4096}, gemm::GemmOn::sip) > 0.85);
  CHECK(share_of_roof({1, 4096, 4096}, gemm::GemmOn::sip) > 0.9);
  CHECK(share_of_roof({64, 4096, 4096}, gemm::GemmOn::sip) > 0.9);
}

// 64 x 64 are four folds of the array, of which two stand beside each other: a third PE would not
// take any.
TEST_CASE("PEs for which there is no fold of the array get no part", "[gemm_run]") {
  const gemm::GemmRow row =
      run({.size = {64, 64, 64}, .placement = {.on = gemm::GemmOn::sip}}, true);
  CHECK(row.wrong == 0);
  CHECK(row.pes == 128);
  CHECK(row.shares.size() == 2);
  CHECK(row.peak_tflops == Approx(2 * 3.072));
}

TEST_CASE("without rates there is no peak and no bound", "[gemm_run]") {
  const gemm::GemmRow row = run({.size = {8, 8, 8}}, true, load_topology("zero_overhead"));
  CHECK(row.time == Time{0});
  CHECK(row.tflops() == 0);
  CHECK(row.wrong == 0);
  CHECK_FALSE(row.utilization().has_value());
}

TEST_CASE("what does not fit is refused before memory is taken", "[gemm_run][errors]") {
  CHECK_THAT(error_of<DeviceError>([] {
               run({.size = {65'536, 65'536, 65'536}});
             }),
             test::Says("KB-M010", "65536", "1", "24 GiB", "4 GiB"));
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  CHECK_THROWS_AS(run({.size = {kMost, kMost, 1 << 21}}), DeviceError);
}

}  // namespace
}  // namespace kernbench::test::gemm_run_test
