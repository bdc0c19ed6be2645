// Once warm, events, transfers and commands allocate nothing.

#include <catch2/catch.hpp>

#include "sim_engine/components/launcher.h"
#include "test/sim_engine/components/exchange_program.h"

#if !defined(KERNBENCH_ASAN)  // which has an operator new of its own

#include "test/support/allocation_count.h"

namespace kernbench::sim::allocation_test {

namespace {

// How often `round` allocates after it has run `warm_up` times.
template <class Round>
std::size_t allocations_once_warm(int warm_up, Round round) {
  for (int i = 0; i < warm_up; ++i) round();
  const std::size_t before = test::allocation_count;
  for (int i = 0; i < 3; ++i) round();
  return test::allocation_count - before;
}

struct Chain {
  Engine& engine;
  int left = 0;
  std::uint64_t state = 1;

  // Events with few ties and with many, near and far.
  void step() {
    if (left-- <= 0) return;
    state = state * 6364136223846793005 + 1442695040888963407;
    engine.schedule<&Chain::step>(Time{static_cast<std::int64_t>(state >> 33) % 100'000}, this);
    if (left % 7 == 0) engine.schedule<&Chain::step>(ns(5), this);
  }
};

}  // namespace

TEST_CASE("events allocate nothing once warm", "[engine][allocation]") {
  Engine engine;
  Chain chain{engine};
  CHECK(allocations_once_warm(3, [&] {
          chain.left = 20'000;
          for (int i = 0; i < 500; ++i) engine.schedule<&Chain::step>(Time{i % 10}, &chain);
          engine.run();
          engine.clear();
        }) == 0);
}

TEST_CASE("transfers allocate nothing once warm", "[fabric][allocation]") {
  MachineUnderTest dut(test::round_topology(SipTopology::torus_2d, 3, 3, 2, 2));
  int delivered = 0;
  const Event count{[](void* counter, std::uint64_t) { ++*static_cast<int*>(counter); }, &delivered,
                    0};
  CHECK(allocations_once_warm(2, [&] {
          for (int sip = 0; sip < 9; ++sip) {
            for (int to = 0; to < 9; ++to) {
              const Path& path = dut.machine.fabric().path({Endpoint::Kind::tcm, {sip, 0, 0}},
                                                           {Endpoint::Kind::hbm, {to, 3, 1}});
              dut.machine.fabric().send(path, 100, count);
            }
          }
          dut.machine.engine().run();
        }) == 0);
  CHECK(delivered == 5 * 81);
}

TEST_CASE("commands of a timing-only machine allocate nothing once warm", "[pe][allocation]") {
  MachineUnderTest dut(overhead_topology(), {.data = false});
  IpcqChannel& channel =
      dut.machine.connect({kPe0, Direction::east, kPe1, Direction::west}, {.depth = 8});
  const DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest sender(dut, kPe0);
  KernelUnderTest receiver(dut, kPe1);
  CHECK(allocations_once_warm(30, [&] {
          for (int i = 0; i < 8; ++i) {
            const Tile a = sender.run.load(buffer, 64 * i, 64);
            const Tile b = sender.run.math(MathOp::add, a, a);
            sender.run.store(buffer, 64 * i + 32, b);
            sender.run.send(channel, b);
          }
          sender.end();
          while (channel.message_count() > 0) {
            const auto received = receiver.run.post_receive(channel, DType::f32, 64);
            receiver.run.close_receive(received);
            receiver.run.math(MathOp::add, received.tile, received.tile);
          }
          receiver.end();
          dut.machine.engine().run();
        }) == 0);
  REQUIRE(dut.machine.op_log().size() < 2048);  // beyond that it grows by a chunk
}

TEST_CASE("a launch allocates nothing once warm", "[launcher][allocation]") {
  MachineUnderTest dut(test::round_topology(SipTopology::ring_1d, 2, 1, 2, 2));
  const std::vector<PeLocation> pes{{0, 0, 0}, {0, 0, 1}, {0, 3, 0}};
  struct Started {
    Launcher& launcher;
    Launcher::Launch* launch = nullptr;
    void start(std::uint64_t index) { launcher.kernel_finished(*launch, index); }
    void done() {}
  } started{dut.machine.launcher()};
  CHECK(allocations_once_warm(2, [&] {
          started.launch = &dut.machine.launcher().launch(
              pes, Engine::call<&Started::start>(&started), Engine::call<&Started::done>(&started));
          dut.machine.engine().run();
        }) == 0);
}

}  // namespace kernbench::sim::allocation_test

#endif
