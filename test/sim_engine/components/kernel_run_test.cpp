#include "sim_engine/components/kernel_run.h"

#include <catch2/catch.hpp>
#include <random>

#include "sim_engine/base/check.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::kernel_run_test {

namespace {

struct KernelRunUnderTest {
  explicit KernelRunUnderTest(const Topology& topology = overhead_topology()) : dut(topology) {}

  Bytes in_use() { return dut.machine.pe(kPe0).scratch_in_use(); }

  MachineUnderTest dut;
  DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest kernel{dut, kPe0};
};

}  // namespace

TEST_CASE("the PE_CPU takes its issue time per command and runs ahead of the units",
          "[kernel_run][timing]") {
  KernelRunUnderTest k;
  const Tile a = k.kernel.run.load(k.buffer, 0, 16);
  const Tile b = k.kernel.run.math(MathOp::add, a, a);
  k.kernel.run.store(k.buffer, 0, b);
  CHECK(k.dut.now() == Time{0});
  CHECK(k.kernel.run.cpu_clock() == ns(30));
  CHECK(k.kernel.run.outstanding() == 3);
}

TEST_CASE("a PE_CPU that fell behind starts again from now", "[kernel_run][timing]") {
  KernelRunUnderTest k;
  k.kernel.run.load(k.buffer, 0, 16);
  k.kernel.end();
  const Time now = k.dut.now();
  k.kernel.run.load(k.buffer, 0, 16);
  CHECK(k.kernel.run.cpu_clock() == now + ns(10));
}

TEST_CASE("wake_at_clock wakes at the PE_CPU's time", "[kernel_run][timing]") {
  KernelRunUnderTest k;
  CHECK_THROWS_AS(k.kernel.run.wake_at_clock(), InternalError);  // it is not ahead
  for (int i = 0; i < 4; ++i) k.kernel.run.load(k.buffer, 0, 16);
  k.kernel.run.wake_at_clock();
  CHECK(k.dut.machine.engine().run(k.kernel.woken));
  CHECK(k.dut.now() == ns(40));
}

TEST_CASE("a kernel is woken once, when no more commands than it asked for are under way",
          "[kernel_run]") {
  KernelRunUnderTest k;
  CHECK_THROWS_AS(k.kernel.run.wake_when_outstanding(0), InternalError);
  std::vector<Tile> tiles;
  for (int i = 0; i < 5; ++i) tiles.push_back(k.kernel.run.load(k.buffer, 0, 5));
  // 20 B each: a setup (20 ns) apart.  The first is there at 92 ns.
  CHECK(k.kernel.outstanding_at(3) == ns(92 + 20));
  CHECK(k.kernel.run.outstanding() == 3);
  k.kernel.woken = false;
  k.kernel.ready_at(tiles[3]);
  CHECK_FALSE(k.kernel.woken);  // nobody asked
  CHECK_THROWS_AS(k.kernel.run.wake_when_outstanding(1), InternalError);
  CHECK(k.kernel.outstanding_at(0) == ns(92 + 80));
}

TEST_CASE("scratch is held by tiles, and by commands under way, and then given back",
          "[kernel_run][scratch]") {
  KernelRunUnderTest k;
  const Bytes capacity = k.dut.machine.pe(kPe0).scratch_capacity();
  CHECK(k.kernel.run.free_scratch() == capacity);
  {
    const Tile a = k.kernel.run.load(k.buffer, 0, 250);
    const Tile b = k.kernel.run.math(MathOp::add, a, a);
    k.kernel.run.store(k.buffer, 0, b);
    CHECK(k.kernel.run.free_scratch() == capacity - 2000);
  }
  CHECK(k.kernel.run.free_scratch() == capacity - 2000);  // commands still need them
  k.kernel.end();
  CHECK(k.kernel.run.free_scratch() == capacity);
  CHECK(k.in_use() == 0);
}

TEST_CASE("an access that another had to wait for does not hold its scratch beyond its end",
          "[kernel_run][scratch]") {
  KernelRunUnderTest k;
  const Tile other = k.kernel.run.load(k.buffer, 2000, 250);
  k.kernel.end();
  k.kernel.run.load(k.buffer, 0, 250);  // the result is not used
  k.kernel.run.store(k.buffer, 0, other);
  k.kernel.end();
  CHECK(k.kernel.run.free_scratch() == k.dut.machine.pe(kPe0).scratch_capacity() - 1000);
}

TEST_CASE("a message holds scratch of the receiver from the post of its receive on",
          "[kernel_run][scratch]") {
  KernelRunUnderTest k;
  IpcqChannel& channel = k.dut.machine.connect({kPe0, Direction::east, kPe1, Direction::west}, {});
  k.kernel.run.send(channel, k.kernel.run.load(k.buffer, 0, 250));
  k.kernel.end();
  CHECK(k.kernel.run.free_scratch() == k.dut.machine.pe(kPe0).scratch_capacity());
  KernelUnderTest receiver(k.dut, kPe1);
  CHECK(k.dut.machine.pe(kPe1).scratch_in_use() == 0);
  auto received = receiver.run.post_receive(channel, DType::f32, 250);
  CHECK(k.dut.machine.pe(kPe1).scratch_in_use() == 1000);
  receiver.end();
  CHECK(channel.credits() == channel.params().depth - 1);  // one is flying back
  receiver.run.close_receive(received);
  received = {};
  CHECK(receiver.run.free_scratch() == k.dut.machine.pe(kPe1).scratch_capacity());
  k.dut.advance(kLongEnough);
  CHECK(channel.credits() == channel.params().depth);
}

TEST_CASE("a receive costs issue, dispatch, setup, PE_IPCQ and the way out of the buffer",
          "[kernel_run][timing]") {
  KernelRunUnderTest k;
  const BufferKind kind = GENERATE(BufferKind::tcm, BufferKind::sram, BufferKind::hbm);
  IpcqChannel& channel = k.dut.machine.connect({kPe0, Direction::east, kPe1, Direction::west},
                                               {.buffer_kind = kind, .slot_bytes = 1000});
  k.kernel.run.send(channel, k.kernel.run.load(k.buffer, 0, 250));
  k.kernel.end();
  KernelUnderTest receiver(k.dut, kPe1);
  const auto received = receiver.run.post_receive(channel, DType::f32, 250);
  CHECK(receiver.ready_at(received.tile) == ns(10 + 5 + 20 + 4) + channel.pop_path().time_of(1000));
}

// The load overlaps the first store alone.
Time load_behind_two_stores(std::int64_t second) {
  ReadyKernel k(overhead_topology());
  k.kernel.run.store(k.buffer, 0, k.a);
  k.kernel.run.store(k.buffer, second, k.b);
  k.kernel.ready_at(k.kernel.run.load(k.buffer, 0, 16));
  return k.since_start();
}

TEST_CASE("a store over a part of an earlier one does not hide the rest of it",
          "[kernel_run][timing]") {
  CHECK(load_behind_two_stores(128) == load_behind_two_stores(2000));
}

TEST_CASE("random programs give all scratch back and wake exactly once per wait",
          "[kernel_run][scratch]") {
  for (unsigned seed = 0; seed < 50; ++seed) {
    KernelRunUnderTest k;
    std::mt19937 random(seed);
    std::vector<Tile> tiles{k.kernel.run.load(k.buffer, 0, 32)};
    for (int step = 0; step < 200; ++step) {
      const auto begin = static_cast<std::int64_t>(random() % 4064);
      const Tile& any = tiles[random() % tiles.size()];
      switch (random() % 6) {
        case 0:
          tiles.push_back(k.kernel.run.load(k.buffer, begin, 32));
          break;
        case 1:
          k.kernel.run.store(k.buffer, begin, any);
          break;
        case 2:
          tiles.push_back(k.kernel.run.math(MathOp::add, any, tiles.back()));
          break;
        case 3:
          if (tiles.size() > 1) tiles.erase(tiles.begin());
          break;
        case 4:
          if (k.kernel.run.outstanding() > 1) k.kernel.outstanding_at(1);
          break;
        default:
          k.dut.machine.engine().step();
          break;
      }
    }
    if (k.kernel.run.outstanding() > 0) k.kernel.end();
    tiles.clear();
    CHECK(k.kernel.run.free_scratch() == k.dut.machine.pe(kPe0).scratch_capacity());
  }
}

}  // namespace kernbench::sim::kernel_run_test
