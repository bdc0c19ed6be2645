// tl.composite: when things happen.
//
// round_topology(): a load or a store takes 53 ns and its bytes at 20 GB/s (the NoC; each way).
// Operands are f32.  Nothing else costs time, but the array.

#include <catch2/catch.hpp>

#include "sim_engine/components/gemm_array.h"
#include "test/runtime/tl/composite_under_test.h"

namespace kernbench::test::composite_timing_test {
namespace {

constexpr Time ns(std::int64_t count) {
  return Time{count * 1000};
}

// Tiles [10, 25] x [25, 10] of f32: 1000 B each, 50 ns on the way.
constexpr sim::GemmSize kTile{10, 10, 25};
constexpr Time kPair = ns(100);
constexpr Time kWay = ns(53);
// A result is 400 B.
constexpr Time kStore = ns(53 + 20);

// 2 x 2 multipliers at 1 GHz: a tile is 25 folds of 27 cycles.
Topology slow_array() {
  Topology topology = round_topology();
  topology.pe.gemm = {.rows = 2, .columns = 2, .clock = Frequency{1'000'000'000}};
  return topology;
}
constexpr Time kProduct = ns(25 * 27);

struct Timed {
  Time took{0};    // the kernel
  Time window{0};  // the composite
  sim::UnitUse busiest{};
};

Timed run(
    const sim::GemmSize& size, const Topology& topology,
    const std::function<void(tl::CompositeGemm&)>& change = [](tl::CompositeGemm&) {}) {
  CompositeUnderTest gemm(size, DType::f32, DType::f32, topology);
  gemm.run([&](tl::CompositeGemm& composite) {
    composite = composite_of(composite.a, composite.b, composite.c, size, kTile);
    change(composite);
  });
  CHECK(gemm.torch.engine().composite_window_ns() == to_ns(gemm.torch.engine().composite_window()));
  return {gemm.torch.engine().critical_pe_exec(), gemm.torch.engine().composite_window(),
          gemm.torch.engine().busiest_unit()};
}

TEST_CASE("one tile is a load, a product and a store", "[tl][composite][timing]") {
  const Timed one = run(kTile, slow_array());
  CHECK(one.took == kWay + kPair + kProduct + kStore);
  CHECK(one.window == one.took);
}

TEST_CASE("bound by the array: the first load, all products, the last store",
          "[tl][composite][timing]") {
  const std::int64_t rows = GENERATE(1, 2, 3);
  const std::int64_t depths = GENERATE(1, 2, 5);
  const sim::GemmSize size{10 * rows, 10, 25 * depths};
  const Timed timed = run(size, slow_array());
  CHECK(timed.took == kWay + kPair + rows * depths * kProduct + kStore);
  CHECK(timed.busiest.unit == "sip0.cube0.pe0.gemm");
  CHECK(timed.busiest.busy == rows * depths * kProduct);
}

TEST_CASE("bound by the way: all loads, one after the other, and the last store",
          "[tl][composite][timing]") {
  const std::int64_t depths = GENERATE(1, 2, 3, 10);
  const sim::GemmSize size{10, 10, 25 * depths};
  const Timed timed = run(size, round_topology());
  CHECK(timed.took == kWay + depths * kPair + kStore);
  CHECK(timed.busiest.unit == "sip0.cube0.pe0.noc.in");
  CHECK(timed.busiest.busy == depths * kPair);
}

TEST_CASE("bound by HBM: all bytes, in and out, one after the other", "[tl][composite][timing]") {
  Topology topology = round_topology();
  topology.cube.hbm.bandwidth = Bandwidth{10'000'000'000};
  const std::int64_t rows = GENERATE(2, 3);
  const std::int64_t columns = GENERATE(2, 5);
  // Each result loads 2000 B and stores 400 B.  HBM has always something to do, for the next
  // operands are asked for before the last have come.  Only the last result waits for its place:
  // the last store but two is done 50 ns after it has left HBM, and 3 ns later the last one's head
  // is there, when that of the one between has been gone for 13.
  const Time busy = rows * columns * ns(2400 / 10);
  const Timed timed = run({10 * rows, 10 * columns, 25}, topology);
  CHECK(timed.took == busy + ns(50 + 3 - 40) + ns(50));
  CHECK(timed.busiest.unit == "sip0.cube0.hbm0");
  CHECK(timed.busiest.busy == busy);
}

TEST_CASE("bound by latency: two products' operands are under way at a time",
          "[tl][composite][timing]") {
  Topology topology = round_topology();
  topology.cube.hbm.latency = ns(1000);
  const Time way = ns(1003);
  // The array takes no time here.  Operands of product 2 i are asked for when those of 2 i - 2
  // have come, those of 2 i + 1 a pair later.
  const std::int64_t pairs = GENERATE(1, 2, 5);
  CHECK(run({10, 10, 25 * 2 * pairs}, topology).took ==
        pairs * way + (pairs + 1) * kPair + way + ns(20));
}

TEST_CASE("results are stored while the next are worked on", "[tl][composite][timing]") {
  // Four results of one product each.  The way out is another than the way in, and HBM (40 GB/s)
  // has room for both.
  const sim::GemmSize size{20, 20, 25};
  CHECK(run(size, slow_array()).took == kWay + kPair + 4 * kProduct + kStore);
}

// Half of each result goes to the other cube, 10 us away.  Scratch has two results, so that the
// next but one waits until both halves are stored.
TEST_CASE("a result that lies in two slices of HBM keeps its place until both are stored",
          "[tl][composite][timing]") {
  Topology topology = small_topology();
  topology.sip.ucie.latency = ns(10'000);
  RuntimeContext torch(topology);
  const DPPolicy in_blocks{.cube = Shard::row_wise, .pe = Shard::replicate, .num_pes = 1};
  const auto on_one = [&](const Shape& shape) {
    return torch.ones(shape, {.dp = DPPolicy::on_one_pe()});
  };
  for (const std::int64_t results : {2, 4, 6}) {
    const Tensor a = on_one({10, 25});
    const Tensor b = on_one({25, 10 * results});
    const Tensor c = torch.empty({10, 10 * results}, {.dp = in_blocks});
    const auto at = [&](const Tensor& x, int cube) {
      return RuntimeContext::pointer_to(x, {0, cube, 0});
    };
    torch.launch(
        "gemm",
        [&](tl::Context& tl, tl::Pointer) {
          tl::CompositeGemm gemm =
              composite_of(at(a, 0), at(b, 0), at(c, 0), {10, 10 * results, 25}, kTile);
          gemm.c_further = {{5, at(c, 1)}};
          tl.composite(gemm);
        },
        on_one({1}));
    CAPTURE(results);
    CHECK(torch.engine().composite_window() >= results / 2 * ns(10'000));
    CHECK(torch.engine().composite_window() < (results / 2 + 1) * ns(10'000));
  }
}

TEST_CASE("edges take what their own tiles take", "[tl][composite][timing]") {
  // [13, 25] in rows of 10 and 3: 25 folds, then ceil(3 / 2) * 5 = 10.
  CHECK(run({13, 10, 25}, slow_array()).took ==
        kWay + kPair + kProduct + ns(10 * 27) + ns(53) + ns(6));
}

TEST_CASE("dispatch, setup and translation are those of any command", "[tl][composite][timing]") {
  Topology topology = slow_array();
  topology.pe.cpu_issue = ns(10);
  topology.pe.scheduler_dispatch = ns(5);
  topology.pe.dma_setup = ns(20);
  topology.pe.mmu_latency = ns(3);
  // Issued at 10, dispatched at 15; its loads are at the DMA at 20, set up at 40 and 60.  The
  // second's head would be at the NoC at 60 + 3 + 50, when the first, there since 93, is until 143.
  const Time loaded = ns(143 + 50 + 3);
  const Time stored = loaded + ns(5) + kProduct + ns(5 + 20 + 3) + kStore;
  const Timed one = run(kTile, topology);
  CHECK(one.took == stored);
  CHECK(one.window == stored - ns(15));
  // With two products the second's operands are loaded long before the first has ended, and it
  // follows without a gap.
  CHECK(run({10, 10, 50}, topology).took == stored + kProduct);
}

TEST_CASE("the epilogue is one pass of PE_MATH with the cycles of its operations",
          "[tl][composite][timing]") {
  Topology topology = slow_array();
  topology.pe.math_lanes = 4;
  topology.pe.math_clock = Frequency{1'000'000'000};
  topology.pe.math_cycles[MathKind::mul] = 2;
  topology.pe.math_cycles[MathKind::compare] = 3;
  const auto change = [](tl::CompositeGemm& gemm) {
    gemm.scale = 2;
    gemm.activation = tl::Activation::relu;
  };
  const Time epilogue = ns(100 / 4 * (2 + 3));
  CHECK(run(kTile, topology, change).took == kWay + kPair + kProduct + epilogue + kStore);
  // The store of the first result overlaps the second product.
  CHECK(run({20, 10, 25}, topology, change).took ==
        kWay + kPair + 2 * kProduct + epilogue + kStore);
}

TEST_CASE("a bias is loaded beside the operands of each result", "[tl][composite][timing]") {
  Topology topology = slow_array();
  CompositeUnderTest gemm(kTile, DType::f32, DType::f32, topology);
  const Tensor bias = gemm.matrix({10}, DType::f32, "bias", Floats(10, 1));
  const auto run_with = [&](const sim::GemmSize& tile) {
    gemm.run([&](tl::CompositeGemm& composite) {
      composite = composite_of(composite.a, composite.b, composite.c, kTile, tile);
      composite.bias = gemm.pointer_to(bias);
    });
    return gemm.torch.engine().hbm_bytes_loaded();
  };
  CHECK(run_with(kTile) == 2 * 1000 + 40);
  CHECK(run_with({5, 10, 5}) == 1000 + 2 * (1000 + 40));  // b and the bias for each row of tiles
  CHECK(gemm.c.to_vector()[0] == gemm.expected()[0] + 1);
}

TEST_CASE("a chosen tiling of a large product is near the array's own time",
          "[tl][composite][timing]") {
  Topology topology = round_topology();
  topology.pe.gemm = {.rows = 32, .columns = 32, .clock = Frequency{100'000'000}};
  const sim::GemmSize size{512, 512, 512};
  CompositeUnderTest gemm(size, DType::f16, DType::f16, topology, {.data = false});
  gemm.run();
  const auto use = sim::gemm_array_use(topology.pe.gemm, size);
  const Time ideal = cycles_time(use->cycles, topology.pe.gemm.clock);
  CHECK(gemm.torch.engine().composite_window() > ideal);
  CHECK(gemm.torch.engine().composite_window() < ideal * 5 / 4);
}

TEST_CASE("composites with tiles of their own overlap, those that choose follow each other",
          "[tl][composite][timing]") {
  const auto two = [](std::int64_t tile) {
    CompositeUnderTest gemm({10, 10, 25}, DType::f32, DType::f32, slow_array());
    const Tensor d = gemm.matrix({10, 10}, DType::f32, "d", Floats(100));
    gemm.torch.launch(
        "two",
        [&](tl::Context& tl, tl::Pointer a, tl::Pointer b, tl::Pointer c, tl::Pointer other) {
          for (const tl::Pointer& result : {c, other}) {
            tl.composite(composite_of(a, b, result, {10, 10, 25}, {tile, tile, tile}));
          }
        },
        gemm.a, gemm.b, gemm.c, d);
    return gemm.torch.engine().critical_pe_exec();
  };
  CHECK(two(25) == kWay + kPair + 2 * kProduct + kStore);
  CHECK(two(0) > two(25));
}

TEST_CASE("a kernel without a composite has no window", "[tl][composite][timing]") {
  CompositeUnderTest gemm(kTile, DType::f32);
  gemm.torch.launch(
      "load", [](tl::Context& tl, tl::Pointer a) { tl.load(a, {5}, DType::f32); }, gemm.a);
  CHECK(gemm.torch.engine().composite_window_ns() == 0);
  CHECK(gemm.torch.engine().hbm_bytes_loaded() == 20);
  CHECK(gemm.torch.engine().hbm_bytes_stored() == 0);
}

}  // namespace
}  // namespace kernbench::test::composite_timing_test
