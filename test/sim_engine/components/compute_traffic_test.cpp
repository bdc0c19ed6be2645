// PE_GEMM and PE_MATH read from TCM and write to it, and that takes time (ADR-0248).

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim_engine/components/gemm_array.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::compute_traffic_test {

namespace {

constexpr GemmOperands kElements{.of_a = 2, .of_b = 1, .of_c = 8, .added_to = 5};
constexpr Bytes kSum = 4;

template <class Visit>
void for_each_part(std::int64_t size, std::int64_t part, const Visit& visit) {
  for (std::int64_t begin = 0; begin < size; begin += part) {
    visit(std::min(part, size - begin), begin == 0, begin + part >= size);
  }
}

// Counts what passes the ports fold by fold.
ComputeTraffic traffic_by_counting(const GemmSpec& array, const GemmSize& size) {
  const auto& [m, n, k] = size;
  const auto& [of_a, of_b, of_c, added_to] = kElements;
  ComputeTraffic sum{added_to, 0};
  if (array.dataflow == Dataflow::output_stationary) {
    for_each_part(m, array.rows, [&](std::int64_t rows, bool, bool) {
      for_each_part(n, array.columns, [&](std::int64_t columns, bool, bool) {
        sum += {rows * k * of_a + k * columns * of_b, rows * columns * of_c};
      });
    });
    return sum;
  }
  // The weights stay, or the inputs; the other operand and the sums stream past them.
  const bool weights = array.dataflow == Dataflow::weight_stationary;
  const std::int64_t across = weights ? n : m;
  const std::int64_t streams = weights ? m : n;
  const Bytes of_held = weights ? of_b : of_a;
  const Bytes of_streaming = weights ? of_a : of_b;
  for_each_part(k, array.rows, [&](std::int64_t rows, bool is_first, bool is_last) {
    for_each_part(across, array.columns, [&](std::int64_t columns, bool, bool) {
      sum.read += rows * columns * of_held + streams * rows * of_streaming;
      if (!is_first) sum.read += streams * columns * kSum;
      sum.written += streams * columns * (is_last ? of_c : kSum);
    });
  });
  return sum;
}

// overhead_topology() with an array of 4 x 4 at 1 GHz, and ports of TCM of that rate.
Topology with_ports(std::int64_t gigabytes) {
  Topology topology = overhead_topology();
  topology.pe.gemm = {.rows = 4, .columns = 4, .clock = Frequency{1'000'000'000}};
  topology.pe.tcm.compute_bandwidth = Bandwidth{gigabytes * 1'000'000'000};
  return topology;
}

struct UnitUnderTest : ReadyKernel {
  explicit UnitUnderTest(std::int64_t gigabytes) : ReadyKernel(with_ports(gigabytes)) {}

  Time product(const Tile& added_to = {}) {
    return took(kernel.run.gemm({16, 16, 16}, a, b, added_to, DType::f32));
  }
  ComputeTraffic traffic() const { return dut.machine.compute_traffic(); }
};

}  // namespace

TEST_CASE("a product reads and writes what its folds do, one by one", "[gemm][tcm]") {
  GemmSpec array{.rows = 4, .columns = 3, .clock = {}};
  array.dataflow = GENERATE(Dataflow::output_stationary, Dataflow::weight_stationary,
                            Dataflow::input_stationary);
  for (const std::int64_t m : {1, 3, 8, 13}) {
    for (const std::int64_t n : {1, 4, 12, 17}) {
      for (const std::int64_t k : {1, 2, 4, 5, 31}) {
        CAPTURE(m, n, k);
        CHECK(gemm_traffic(array, {m, n, k}, kElements) == traffic_by_counting(array, {m, n, k}));
      }
    }
  }
  CHECK(gemm_traffic(array, {0, 3, 3}, kElements) == ComputeTraffic{});
}

// 16 folds of 16 + 6 cycles, 352 ns.  Each of 4 rows of folds reads all of b, 1 KiB, and each of 4
// columns all of a.
TEST_CASE("a product takes its cycles, or its bytes over a port of TCM", "[gemm][tcm][timing]") {
  CHECK(UnitUnderTest(24).product() == ns(352));
  CHECK(UnitUnderTest(10).product() == Time{8 * 1024 * 100});
  UnitUnderTest pe(10);
  CHECK(pe.product(pe.a) == Time{9 * 1024 * 100});
  CHECK(pe.traffic() == ComputeTraffic{9 * 1024, 1024});
}

// 16 lanes at 1 GHz, a cycle for each operation.
TEST_CASE("PE_MATH takes its cycles, or its bytes over a port of TCM", "[math][tcm][timing]") {
  const auto add = [](UnitUnderTest& pe) {
    return pe.took(pe.kernel.run.math(MathOp::add, pe.a, pe.b));
  };
  UnitUnderTest wide(128);
  CHECK(add(wide) == ns(256 / 16));
  UnitUnderTest narrow(10);
  CHECK(add(narrow) == Time{2 * 1024 * 100});
  CHECK(narrow.traffic() == ComputeTraffic{2 * 1024, 1024});
}

TEST_CASE("softmax reads three times and writes twice", "[math][tcm][timing]") {
  UnitUnderTest pe(10);
  CHECK(pe.took(pe.kernel.run.along_axis(AxisOp::softmax, pe.a, {16, 16, 1})) ==
        Time{3 * 1024 * 100});
  CHECK(pe.traffic() == ComputeTraffic{3 * 1024, 2 * 1024});
}

TEST_CASE("a port that is slower than the unit is the busiest, in the class of TCM",
          "[busiest_unit][tcm]") {
  UnitUnderTest pe(10);
  pe.product();
  CHECK(pe.dut.machine.busiest_unit().unit == "sip0.cube0.pe0.gemm.read");
  const UnitClassUse use =
      pe.dut.machine.unit_classes().at(static_cast<std::size_t>(UnitClass::tcm));
  CHECK(use.busiest.busy == Time{8 * 1024 * 100});
  CHECK(use.count == 6 * static_cast<std::int64_t>(pe.dut.machine.topology().pe_count()) *
                         pe.dut.machine.topology().cube_count() *
                         pe.dut.machine.topology().system.sip_count);
}

}  // namespace kernbench::sim::compute_traffic_test
