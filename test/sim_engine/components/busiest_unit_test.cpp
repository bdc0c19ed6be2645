// Machine::busiest_unit(): which unit served for longest, and for how long.

#include <catch2/catch.hpp>

#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::busiest_unit_test {

namespace {

struct Use {
  std::string unit;
  Time busy;
  friend bool operator==(const Use&, const Use&) = default;
};

Use busiest_of(const MachineUnderTest& dut) {
  const UnitUse use = dut.machine.busiest_unit();
  return {use.unit, use.busy};
}

// overhead_topology() with an array of 4 x 4 at 1 GHz.
Topology gemm_topology() {
  Topology topology = overhead_topology();
  topology.pe.gemm = {.rows = 4, .columns = 4, .clock = Frequency{1'000'000'000}};
  return topology;
}

// 16 folds of 16 + 6 cycles.
constexpr Time kProduct = ns(352);

void multiply(KernelUnderTest& kernel, const DeviceBuffer& buffer, int count) {
  const Tile a = kernel.run.load(buffer, 0, 256);
  for (int i = 0; i < count; ++i) kernel.run.gemm({16, 16, 16}, a, a, {}, DType::f32);
}

}  // namespace

TEST_CASE("where nothing was done no unit was busy", "[busiest_unit]") {
  const MachineUnderTest dut(overhead_topology());
  CHECK(busiest_of(dut) == Use{"", Time{0}});
}

TEST_CASE("products on the array are its own cycles", "[busiest_unit][gemm]") {
  MachineUnderTest dut(gemm_topology());
  KernelUnderTest kernel(dut, kPe1);
  multiply(kernel, dut.buffer(kPe1, 256), 5);
  kernel.end();
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe1.gemm", 5 * kProduct});
  dut.advance(ns(1000));  // idle time counts for nobody
  CHECK(busiest_of(dut).busy == 5 * kProduct);
}

TEST_CASE("the use of each class of units is of the time that kernels ran", "[busiest_unit]") {
  MachineUnderTest dut(gemm_topology());
  KernelUnderTest kernel(dut, kPe1);
  multiply(kernel, dut.buffer(kPe1, 256), 5);
  kernel.end();
  const Time kernel_time = dut.machine.busiest_unit().kernel_time;
  CHECK(kernel_time > 5 * kProduct);
  for (const UnitClassUse& use : dut.machine.unit_classes()) {
    CHECK(use.busiest.kernel_time == kernel_time);
  }
}

TEST_CASE("what a unit has before it does not count until it is served", "[busiest_unit]") {
  MachineUnderTest dut(gemm_topology());
  KernelUnderTest kernel(dut, kPe0);
  multiply(kernel, dut.buffer(kPe0, 256), 5);
  kernel.outstanding_at(3);  // the load and two products have ended
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe0.gemm", 2 * kProduct});
  dut.advance(ns(100));
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe0.gemm", 2 * kProduct + ns(100)});
}

TEST_CASE("what a run that was abandoned had still before it never counts", "[busiest_unit]") {
  MachineUnderTest dut(gemm_topology());
  {
    KernelUnderTest kernel(dut, kPe0);
    multiply(kernel, dut.buffer(kPe0, 256), 5);
    kernel.outstanding_at(3);
  }
  dut.machine.abandon_work_under_way();
  dut.advance(ns(1000));
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe0.gemm", 2 * kProduct});
}

TEST_CASE("loads from a slow HBM keep its slice busy, bytes over bandwidth",
          "[busiest_unit][hbm]") {
  Topology topology = overhead_topology();
  topology.cube.hbm.bandwidth = Bandwidth{10'000'000'000};
  MachineUnderTest dut(topology);
  KernelUnderTest kernel(dut, kPe0);
  const DeviceBuffer buffer = dut.buffer(kPe1, 4096);
  for (int i = 0; i < 4; ++i) kernel.run.load(buffer, 0, 4000);
  kernel.end();
  CHECK(busiest_of(dut) == Use{"sip0.cube0.hbm1", ns(4 * 16'000 / 10)});
}

TEST_CASE("a message to another SIP keeps the link between them busy", "[busiest_unit][link]") {
  MachineUnderTest dut(overhead_topology());
  const Path path = dut.path({Endpoint::Kind::tcm, kPe0}, {Endpoint::Kind::tcm, kFarPe0});
  dut.machine.fabric().send(path, 10'000, {[](void*, std::uint64_t) {}, nullptr, 0});
  dut.machine.engine().run();
  CHECK(busiest_of(dut) == Use{"sip0.link.east", ns(1000)});
}

TEST_CASE("many small commands keep PE_CPU busy", "[busiest_unit][cpu]") {
  MachineUnderTest dut(overhead_topology());
  KernelUnderTest kernel(dut, kPe0);
  const Tile x = kernel.run.ramp(DType::f32, 0, 16);
  for (int i = 0; i < 9; ++i) kernel.run.math(MathOp::add, x, x);
  kernel.end();
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe0.cpu", ns(10 * 10)});
}

TEST_CASE("what the host moves does not count", "[busiest_unit]") {
  MachineUnderTest dut(overhead_topology());
  const Path path = dut.path({Endpoint::Kind::host, kPe0}, {Endpoint::Kind::hbm, kPe0});
  dut.machine.fabric().send(path, 1'000'000, {[](void*, std::uint64_t) {}, nullptr, 0});
  dut.machine.engine().run();
  CHECK(busiest_of(dut) == Use{"", Time{0}});
}

TEST_CASE("the share is of the time in which any kernel ran", "[busiest_unit]") {
  MachineUnderTest dut(gemm_topology());
  CHECK(dut.machine.busiest_unit().share() == 0);
  dut.advance(ns(500));
  {
    KernelUnderTest kernel(dut, kPe0);
    const Tile a = kernel.run.load(dut.buffer(kPe0, 256), 0, 256);
    kernel.end();
    dut.advance(ns(100));
    const KernelUnderTest other(dut, kPe1);  // beside the first
    kernel.run.gemm({16, 16, 16}, a, a, {}, DType::f32);
    kernel.end();
  }
  // Issue, dispatch, setup, translation, way and 1024 B; then issue, dispatch and the product.
  const Time kernel_time = ns(10 + 5 + 20 + 3 + 53) + Time{51'200} + ns(100) + ns(15) + kProduct;
  dut.advance(ns(1000));
  const UnitUse use = dut.machine.busiest_unit();
  CHECK(use.kernel_time == kernel_time);
  CHECK(use.share() ==
        static_cast<double>(kProduct.count()) / static_cast<double>(kernel_time.count()));
  {
    const KernelUnderTest idle(dut, kPe0);
    dut.advance(ns(1));
    CHECK(dut.machine.busiest_unit().kernel_time == kernel_time + ns(1));
  }
}

TEST_CASE("of units that were as busy the first is named", "[busiest_unit]") {
  MachineUnderTest dut(gemm_topology());
  KernelUnderTest second(dut, kPe1);
  KernelUnderTest first(dut, kPe0);
  multiply(second, dut.buffer(kPe1, 256), 2);
  multiply(first, dut.buffer(kPe0, 256), 2);
  dut.machine.engine().run();
  CHECK(busiest_of(dut) == Use{"sip0.cube0.pe0.gemm", 2 * kProduct});
}

}  // namespace kernbench::sim::busiest_unit_test
