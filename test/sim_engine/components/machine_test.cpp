#include "sim_engine/components/machine.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "sim_engine/base/check.h"
#include "sim_engine/base/error.h"
#include "sim_engine/components/hbm_allocator.h"
#include "test/sim_engine/components/exchange_program.h"
#include "test/support/error_text.h"

namespace kernbench::sim::machine_test {

namespace {

const IpcqChannel::Ends kEast{kPe0, Direction::east, kPe1, Direction::west};

// How long the exchange takes on an idle machine; it must come to its end.
Time exchange_time(Machine& machine) {
  ExchangeProgram program(machine);
  program.launch();
  machine.engine().run();
  REQUIRE(program.is_done());
  return program.duration();
}

Time exchange_time_of_fresh_machine() {
  MachineUnderTest dut(overhead_topology());
  ExchangeProgram::connect(dut.machine);
  return exchange_time(dut.machine);
}

}  // namespace

TEST_CASE("connect enters a queue in the tables of both PEs, disconnect takes it out",
          "[machine][ipcq]") {
  MachineUnderTest dut(overhead_topology());
  IpcqChannel& channel = dut.machine.connect(kEast, {});
  CHECK(dut.machine.pe(kPe0).ipcq().out(Direction::east) == &channel);
  CHECK(dut.machine.pe(kPe1).ipcq().in(Direction::west) == &channel);
  CHECK(dut.machine.pe(kPe0).ipcq().in(Direction::east) == nullptr);
  CHECK(dut.machine.pe(kPe1).ipcq().out(Direction::west) == nullptr);
  CHECK_THROWS_AS(dut.machine.connect(kEast, {}), InternalError);  // connected already

  dut.machine.disconnect_all();
  CHECK(dut.machine.channels().empty());
  CHECK(dut.machine.pe(kPe0).ipcq().out(Direction::east) == nullptr);
  CHECK(dut.machine.pe(kPe1).ipcq().in(Direction::west) == nullptr);
  dut.machine.connect(kEast, {});
}

TEST_CASE("queues in TCM take their slots out of the receiver's scratch, others leave it alone",
          "[machine][ipcq][scratch]") {
  MachineUnderTest dut(overhead_topology());
  const Bytes capacity = dut.machine.topology().pe.tcm.capacity;
  const IpcqParams params{.depth = 3, .slot_bytes = 1000};
  dut.machine.connect(kEast, params);
  dut.machine.connect({kFarPe0, Direction::global_west, kPe1, Direction::global_east}, params);
  dut.machine.connect({kFarPe0, Direction::global_east, kPe1, Direction::global_west},
                      {.buffer_kind = BufferKind::sram});
  dut.machine.connect({kPe1, Direction::west, kPe0, Direction::east},
                      {.buffer_kind = BufferKind::hbm});
  CHECK(dut.machine.pe(kPe1).scratch_capacity() == capacity - 6000);
  CHECK(dut.machine.pe(kPe0).scratch_capacity() == capacity);
  dut.machine.disconnect_all();
  CHECK(dut.machine.pe(kPe1).scratch_capacity() == capacity);
}

TEST_CASE("queues that do not fit into TCM are refused with what is free",
          "[machine][ipcq][errors]") {
  MachineUnderTest dut(overhead_topology());  // 2 MiB of TCM
  dut.machine.connect(kEast, {.depth = 2, .slot_bytes = 1'000'000});
  const IpcqChannel::Ends another{kFarPe0, Direction::global_west, kPe1, Direction::global_east};
  CHECK_THAT(test::error_of<DeviceError>(
                 [&] { dut.machine.connect(another, {.depth = 1, .slot_bytes = 97'153}); }),
             test::Says("KB-M010", "sip0.cube0.pe1", "1", "97153 B", "97152 B", "buffer_kind"));
  CHECK(dut.machine.channels().size() == 1);
  dut.machine.connect(another, {.depth = 1, .slot_bytes = 97'152});  // the rest
}

TEST_CASE("queues in SRAM share what their cube has", "[machine][ipcq][capacity]") {
  Topology topology = overhead_topology();
  topology.cube.sram.capacity = 10'000;
  MachineUnderTest dut(topology);
  const auto connect = [&](int index, const PeLocation& from, const PeLocation& to) {
    dut.machine.connect({from, {Direction::east, index}, to, {Direction::west, index}},
                        {.buffer_kind = BufferKind::sram, .depth = 2, .slot_bytes = 2000});
  };
  for (int round = 0; round < 2; ++round) {
    connect(0, kPe0, kPe1);
    connect(1, kPe1, kPe0);
    CHECK_THAT(
        test::error_of<DeviceError>([&] { connect(2, kPe0, kPe1); }),
        test::Says("KB-M010", "sip0.cube0", "2", "2000 B", "4000 B", "10000 B", "buffer_kind"));
    CHECK(dut.machine.channels().size() == 2);
    connect(2, kPe0, kFarPe0);  // that is another cube
    dut.machine.disconnect_all();
  }
}

TEST_CASE("queues in HBM share a PE's slice with tensors", "[machine][ipcq][capacity]") {
  Topology topology = overhead_topology();
  topology.cube.hbm.capacity = 2 << 20;  // 1 MiB for each PE
  MachineUnderTest dut(topology);
  HbmAllocator& hbm = dut.machine.hbm(0);
  const auto connect = [&](int index) {
    dut.machine.connect({kPe0, {Direction::east, index}, kPe1, {Direction::west, index}},
                        {.buffer_kind = BufferKind::hbm, .depth = 1, .slot_bytes = 400 << 10});
  };
  for (int round = 0; round < 2; ++round) {
    connect(0);
    connect(1);
    CHECK(hbm.allocated() == 800 << 10);
    CHECK_THAT(
        test::error_of<DeviceError>([&] { connect(2); }),
        test::Says("KB-M010", "sip0.cube0.pe1", "409600 B", "229376 B", "1048576 B", "819200 B"));
    CHECK_THAT(
        test::error_of<DeviceError>([&] { hbm.allocate(0, 1, 300 << 10); }),
        test::Says("KB-M010", "sip0.cube0.pe1", "307200 B", "229376 B", "1048576 B", "819200 B"));
    const Bytes tensor = hbm.allocate(0, 1, 224 << 10);
    dut.machine.disconnect_all();
    CHECK(hbm.allocated() == 224 << 10);
    hbm.free(tensor, 224 << 10);
  }
}

TEST_CASE("queues may be taken away while credits fly back", "[machine][ipcq]") {
  MachineUnderTest dut(overhead_topology());
  for (int round = 0; round < 3; ++round) {
    IpcqChannel& channel = dut.machine.connect(kEast, {.depth = 2});
    channel.deliver(channel.take_credit(dut.now()), {});
    channel.pop();
    channel.release_slot();
    dut.machine.disconnect_all();
    CHECK(dut.machine.connect(kEast, {.depth = 2}).credits() == 2);
    if (round == 1) dut.machine.engine().run();
    dut.machine.disconnect_all();
  }
  dut.machine.engine().run();
}

TEST_CASE("a location that does not exist is our own fault", "[machine]") {
  MachineUnderTest dut(overhead_topology());
  for (const PeLocation& at :
       {PeLocation{2, 0, 0}, PeLocation{0, 1, 0}, PeLocation{0, 0, 2}, PeLocation{-1, 0, 0}}) {
    CHECK_THROWS_AS(dut.machine.pe(at), InternalError);
  }
}

TEST_CASE("the same program takes the same time again on the same machine", "[machine][timing]") {
  MachineUnderTest dut(overhead_topology());
  ExchangeProgram::connect(dut.machine);
  const Time first = exchange_time(dut.machine);
  CHECK(exchange_time(dut.machine) == first);
  CHECK(exchange_time_of_fresh_machine() == first);
}

TEST_CASE("two machines that do the same have the same fingerprint and log", "[machine]") {
  MachineUnderTest a(overhead_topology());
  MachineUnderTest b(overhead_topology());
  MachineUnderTest traced(overhead_topology(), {.data = false, .trace = true});
  for (MachineUnderTest* dut : {&a, &b, &traced}) {
    ExchangeProgram::connect(dut->machine);
    exchange_time(dut->machine);
  }
  CHECK(a.machine.engine().fingerprint() == b.machine.engine().fingerprint());
  CHECK(std::equal(a.machine.op_log().begin(), a.machine.op_log().end(), b.machine.op_log().begin(),
                   b.machine.op_log().end()));
  // Neither data nor a trace changes what happens.
  CHECK(a.machine.engine().fingerprint() == traced.machine.engine().fingerprint());
}

TEST_CASE("work that is abandoned at any moment leaves an idle machine", "[machine]") {
  const Time fresh = exchange_time_of_fresh_machine();
  for (int steps = 0;; ++steps) {
    MachineUnderTest dut(overhead_topology());
    ExchangeProgram::connect(dut.machine);
    bool was_done = false;
    {
      ExchangeProgram program(dut.machine);
      program.launch();
      for (int i = 0; i < steps; ++i) dut.machine.engine().step();
      was_done = program.is_done();
    }
    dut.machine.abandon_work_under_way();
    CHECK_FALSE(dut.machine.engine().step());
    for (const PeLocation& at : {kPe0, kPe1}) CHECK(dut.machine.pe(at).scratch_in_use() == 0);
    CHECK(dut.machine.pe(kPe0).services().tiles.live_count() == 0);
    for (const IpcqChannel& channel : dut.machine.channels()) {
      CHECK(channel.credits() == channel.params().depth);
      CHECK(channel.message_count() == 0);
      CHECK(channel.open_post_count() == 0);
    }
    REQUIRE(exchange_time(dut.machine) == fresh);
    if (was_done) break;
  }
}

TEST_CASE("two PEs that write the same elements at once race, afterwards the machine still works",
          "[machine][errors]") {
  MachineUnderTest dut(overhead_topology());
  ExchangeProgram::connect(dut.machine);
  const DeviceBuffer own = dut.buffer(kPe0, 100);
  const DeviceBuffer shared = dut.buffer(kPe0, 100);
  std::string text;
  {
    KernelUnderTest a(dut, kPe0);
    KernelUnderTest b(dut, kPe1);
    a.run.store(shared, 0, a.run.load(own, 0, 60));
    b.run.store(shared, 40, b.run.load(own, 0, 60));
    try {
      dut.machine.engine().run();
    } catch (const DeviceError& error) {
      text = error.what();
    }
  }
  CHECK_THAT(text, Catch::StartsWith("[KB-M030] data race on elements 40..59"));
  dut.machine.abandon_work_under_way();
  KernelUnderTest b(dut, kPe1);
  b.run.store(shared, 40, b.run.load(own, 0, 60));
  b.end();  // nobody else writes any more
  dut.machine.engine().run();
  CHECK(exchange_time(dut.machine) == exchange_time_of_fresh_machine());
}

TEST_CASE("units that were reserved far ahead are free once their work is abandoned",
          "[machine][timing]") {
  const auto program = [](MachineUnderTest& dut, int repetitions) {
    KernelUnderTest kernel(dut, kPe0);
    IpcqChannel& channel = *dut.machine.pe(kPe0).ipcq().out(Direction::east);
    const DeviceBuffer buffer = dut.buffer(kPe0, 20'000);
    const Tile tile = kernel.run.load(buffer, 0, 16);
    kernel.end();
    for (int i = 0; i < repetitions; ++i) {
      kernel.run.load(buffer, 0, 16);
      kernel.run.store(buffer, 1000 * (i % 20), tile);
      kernel.run.math(MathOp::add, tile, tile);
      if (channel.next_credit()) kernel.run.send(channel, tile);
    }
    if (repetitions == 1) return kernel.end();
    for (int i = 0; i < 5 * repetitions; ++i) dut.machine.engine().step();
    return Time{0};
  };
  Topology slow = overhead_topology();
  slow.pe.cpu_issue = Time{0};
  slow.pe.dma_setup = ns(1000);
  slow.pe.math_clock = Frequency{1'000'000};
  MachineUnderTest fresh(slow);
  MachineUnderTest dut(slow);
  for (MachineUnderTest* machine : {&fresh, &dut}) {
    machine->machine.connect(kEast, {.depth = 32, .slot_bytes = 64});
  }
  program(dut, 30);
  dut.machine.abandon_work_under_way();
  CHECK(program(dut, 1) == program(fresh, 1));
}

TEST_CASE("a machine may be destroyed with work under way", "[machine]") {
  int under_way = 0;
  for (int steps = 0; steps < 100; steps += 5) {
    MachineUnderTest dut(overhead_topology());
    ExchangeProgram::connect(dut.machine);
    ExchangeProgram program(dut.machine);
    program.launch();
    for (int i = 0; i < steps; ++i) dut.machine.engine().step();
    under_way += dut.machine.engine().is_idle() ? 0 : 1;
  }
  CHECK(under_way == 20);  // each time; what is left behind, AddressSanitizer finds
}

}  // namespace kernbench::sim::machine_test
