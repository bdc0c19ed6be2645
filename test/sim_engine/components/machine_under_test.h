// A machine with round numbers, and a kernel on one of its PEs that is driven without a fiber.

#pragma once

#include <atomic>

#include "sim_engine/components/kernel_run.h"
#include "sim_engine/components/machine.h"
#include "test/support/small_topology.h"

namespace kernbench::sim {

// round_topology() whose PEs have overheads too, each round and different.
inline Topology overhead_topology() {
  Topology topology = test::round_topology();
  topology.sip.io_cpu_dispatch = Time{30'000};
  topology.cube.m_cpu_dispatch = Time{7'000};
  topology.pe.cpu_issue = Time{10'000};
  topology.pe.scheduler_dispatch = Time{5'000};
  topology.pe.dma_setup = Time{20'000};
  topology.pe.mmu_latency = Time{3'000};
  topology.pe.mmu_page = 4096;
  topology.pe.math_lanes = 16;
  topology.pe.math_clock = Frequency{1'000'000'000};
  topology.pe.ipcq_latency = Time{4'000};
  return topology;
}

constexpr Time ns(std::int64_t count) {
  return Time{count * 1000};
}

// Later than anything that the tests start.
constexpr Time kLongEnough{1'000'000'000};

struct MachineUnderTest {
  explicit MachineUnderTest(const Topology& topology, const MachineOptions& options = {})
      : machine(topology, options) {}

  // Storage for `count` f32 elements in the HBM slice of `home`.
  DeviceBuffer buffer(const PeLocation& home, std::int64_t count, Bytes address = 0) {
    return {machine.memory().create_region(DType::f32, count), home, address, DType::f32, count};
  }
  Path path(const Endpoint& from, const Endpoint& to) { return machine.fabric().path(from, to); }
  // Unloaded, between a PE's scratch and its own HBM slice, either way.
  Time hbm_time(const PeLocation& at, Bytes bytes) {
    return path({Endpoint::Kind::hbm, at}, {Endpoint::Kind::tcm, at}).time_of(bytes);
  }
  Time now() const { return machine.engine().now(); }
  // Lets time pass, whether or not anything happens.
  void advance(Time by) {
    std::atomic<bool> over = false;
    machine.engine().schedule(
        by, [](void* flag, std::uint64_t) { *static_cast<std::atomic<bool>*>(flag) = true; },
        &over);
    machine.engine().run(over);
  }

  Machine machine;
};

// A kernel that starts now.  Being woken sets a flag.
struct KernelUnderTest {
  KernelUnderTest(MachineUnderTest& under_test, const PeLocation& at)
      : machine(under_test.machine),
        run(machine.pe(at), Engine::call<&KernelUnderTest::wake>(this)) {}

  void wake() { woken = true; }

  // Runs the engine until the tile is ready.  Returns when, since the start of the kernel.
  Time ready_at(const Tile& tile) {
    while (!tile->ready && machine.engine().step()) {
    }
    REQUIRE(tile->ready);
    return machine.engine().now() - run.started();
  }
  // Runs the engine until at most `count` commands are under way.
  Time outstanding_at(int count) {
    woken = false;
    run.wake_when_outstanding(count);
    REQUIRE(machine.engine().run(woken));
    return machine.engine().now() - run.started();
  }
  Time end() { return outstanding_at(0); }

  Machine& machine;
  std::atomic<bool> woken = false;
  KernelRun run;
};

constexpr PeLocation kPe0{0, 0, 0};
constexpr PeLocation kPe1{0, 0, 1};
constexpr PeLocation kFarPe0{1, 0, 0};

// A kernel on one PE that has two values of f32 in TCM, and nothing under way.
struct ReadyKernel {
  explicit ReadyKernel(const Topology& topology)
      : dut(topology), a(kernel.run.load(buffer, 0, 256)), b(kernel.run.load(buffer, 1000, 256)) {
    kernel.end();
    start = dut.now();
  }
  Time since_start() { return dut.now() - start; }
  // Without the 15 ns from issue to unit.
  Time took(const Tile& result) {
    kernel.ready_at(result);
    return since_start() - ns(15);
  }

  MachineUnderTest dut;
  DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest kernel{dut, kPe0};
  Tile a;
  Tile b;
  Time start{0};
};

}  // namespace kernbench::sim
