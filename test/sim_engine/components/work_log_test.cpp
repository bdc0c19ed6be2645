// What is counted of the energy of a run: FLOPs and bytes by unit, whatever they take of time.

#include "sim_engine/components/work_log.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>

#include "sim_engine/components/fabric.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::work_log_test {
namespace {

using Work = std::map<EnergyUnit, std::int64_t>;

constexpr PeLocation kFrom{0, 1, 0};
constexpr PeLocation kTo{2, 1, 1};

// The units that have done something.
Work work_of(const Machine& machine) {
  REQUIRE(machine.work() != nullptr);
  const WorkSums sums = machine.work()->sums();
  Work work;
  for (const EnergyUnit unit : kEnergyUnits) {
    const std::int64_t sum = sums[static_cast<std::size_t>(unit)];
    if (sum > 0) work[unit] = sum;
  }
  return work;
}

Topology with_energy(Topology topology) {
  topology.energy[EnergyUnit::hbm] = 1;
  return topology;
}

Topology array_of_4() {
  Topology topology = with_energy(overhead_topology());
  topology.pe.gemm = {.rows = 4, .columns = 4, .clock = Frequency{1'000'000'000}};
  return topology;
}

struct CountingKernel {
  explicit CountingKernel(const Topology& topology) : dut(topology, {.energy = true}) {}

  MachineUnderTest dut;
  DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest kernel{dut, kPe0};
};

// c = a b of [16, 16] of f32, 1 KiB each, from HBM and back.
Work work_of_product(const Topology& topology) {
  CountingKernel pe(topology);
  const Tile a = pe.kernel.run.load(pe.buffer, 0, 256);
  const Tile b = pe.kernel.run.load(pe.buffer, 256, 256);
  pe.kernel.run.store(pe.buffer, 512, pe.kernel.run.gemm({16, 16, 16}, a, b, {}, DType::f32));
  pe.kernel.end();
  return work_of(pe.dut.machine);
}

}  // namespace

TEST_CASE("a sum is of what was asked for before a moment, or until it", "[energy]") {
  WorkLog log;
  log.add(EnergyUnit::hbm, Time{10}, 3);
  log.add(EnergyUnit::hbm, Time{10}, 4);
  log.add(EnergyUnit::hbm, Time{20}, 1);
  const auto of_hbm = [](const WorkSums& sums) {
    return sums[static_cast<std::size_t>(EnergyUnit::hbm)];
  };
  CHECK(of_hbm(log.sums_before(Time{10})) == 0);
  CHECK(of_hbm(log.sums_until(Time{10})) == 7);
  CHECK(of_hbm(log.sums_before(Time{20})) == 7);
  CHECK(of_hbm(log.sums_until(Time{19})) == 7);
  CHECK(of_hbm(log.sums()) == 8);
}

// Three transfers of 1 KiB; an array of 4 x 4 reads 8 KiB in 16 folds and writes 1 KiB
// (compute_traffic_test.cpp).
TEST_CASE("a product counts its FLOPs, and its bytes at each port that they pass",
          "[energy][gemm]") {
  const Work expected{{EnergyUnit::gemm_f32, 2 * 16 * 16 * 16},
                      {EnergyUnit::tcm, 3 * 1024 + 9 * 1024},
                      {EnergyUnit::hbm, 3 * 1024},
                      {EnergyUnit::noc, 3 * 1024}};
  const Topology topology = array_of_4();
  CHECK(work_of_product(topology) == expected);
  Topology fast = topology;  // links that take no time carry the same
  fast.cube.noc = {};
  fast.cube.hbm.bandwidth = Bandwidth::unlimited();
  fast.cube.hbm.latency = Time{0};
  fast.pe.tcm.bandwidth = Bandwidth::unlimited();
  fast.pe.gemm.clock = Frequency{2'000'000'000};
  CHECK(work_of_product(fast) == expected);
}

// exp takes 4 cycles of a lane; softmax of n elements a comparison, a difference, exp, a sum and a
// quotient of each.
TEST_CASE("PE_MATH counts a lane's cycles for each element, however many lanes there are",
          "[energy][math]") {
  Topology topology = array_of_4();
  topology.pe.math_cycles[MathKind::exp] = 4;
  topology.pe.math_cycles[MathKind::div] = 8;
  topology.pe.math_lanes = GENERATE(1, 16, 128);
  CountingKernel pe(topology);
  const Tile a = pe.kernel.run.load(pe.buffer, 0, 200);
  const auto operations = [&](const Tile& result) {
    const auto at = static_cast<std::size_t>(EnergyUnit::math);
    const std::int64_t before = pe.dut.machine.work()->sums()[at];
    pe.kernel.ready_at(result);
    return pe.dut.machine.work()->sums()[at] - before;
  };
  pe.kernel.ready_at(a);
  CHECK(operations(pe.kernel.run.math(MathOp::add, a, a)) == 200);
  CHECK(operations(pe.kernel.run.along_axis(AxisOp::sum, a, {10, 20, 1})) == 200);
  CHECK(operations(pe.kernel.run.along_axis(AxisOp::softmax, a, {10, 20, 1})) ==
        200 * (1 + 1 + 4 + 1 + 8));
}

// Two cubes to the IO chiplet's edge, two links between SIPs, two cubes back.
TEST_CASE("a message counts at each link that it passes", "[energy][network]") {
  const Topology topology = with_energy(test::round_topology(SipTopology::ring_1d, 4, 1, 2, 1));
  MachineUnderTest dut(topology, {.energy = true});
  const Path& path =
      dut.machine.fabric().path({Endpoint::Kind::tcm, kFrom}, {Endpoint::Kind::tcm, kTo});
  std::atomic<bool> delivered = false;
  dut.machine.fabric().send(
      path, 1000,
      Event{[](void* flag, std::uint64_t) { *static_cast<std::atomic<bool>*>(flag) = true; },
            &delivered});
  REQUIRE(dut.machine.engine().run(delivered));
  CHECK(work_of(dut.machine) == Work{{EnergyUnit::tcm, 2 * 1000},
                                     {EnergyUnit::noc, 2 * 1000},
                                     {EnergyUnit::ucie, 4 * 1000},
                                     {EnergyUnit::sip_link, 2 * 1000}});
}

TEST_CASE("nothing is counted unless it is asked for, and the topology has an energy", "[energy]") {
  CHECK(MachineUnderTest(overhead_topology(), {.energy = true}).machine.work() == nullptr);
  CHECK(MachineUnderTest(array_of_4()).machine.work() == nullptr);
}

}  // namespace kernbench::sim::work_log_test
