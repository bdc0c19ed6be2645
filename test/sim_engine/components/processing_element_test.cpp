#include "sim_engine/components/processing_element.h"

#include <catch2/catch.hpp>
#include <utility>

#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::processing_element_test {

namespace {

// overhead_topology(): PE_CPU 10 ns, PE_SCHEDULER 5 ns, DMA setup 20 ns, MMU 3 ns per page of 4096.
constexpr Time kIssue = ns(10);
constexpr Time kDispatch = ns(5);
constexpr Time kSetup = ns(20);
constexpr Time kMmu = ns(3);
// HBM 50 ns, NoC 2 ns at 20 GB/s (the slowest), TCM 1 ns.
constexpr Time kHbmPath = ns(53);
constexpr Time kThousandBytes = ns(50);

// A kernel on PE 0 with one buffer of 4096 f32 elements in its own HBM.
struct PeUnderTest {
  explicit PeUnderTest(const Topology& topology = overhead_topology()) : dut(topology) {}

  // A tile that has been loaded already; the PE_CPU's clock is the engine's.
  Tile ready_tile(std::int64_t count) {
    Tile tile = kernel.run.load(buffer, 4096 - count, count);
    kernel.end();
    start = dut.now();
    return tile;
  }
  Time since_start() { return dut.now() - start; }

  MachineUnderTest dut;
  DeviceBuffer buffer = dut.buffer(kPe0, 4096);
  KernelUnderTest kernel{dut, kPe0};
  Time start{0};
};

}  // namespace

TEST_CASE("a load costs issue, dispatch, setup, translation and its path", "[pe][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.kernel.run.load(pe.buffer, 0, 250);
  CHECK(pe.kernel.ready_at(tile) == kIssue + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes);
}

TEST_CASE("a store costs the same as a load of as many bytes", "[pe][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.ready_tile(250);
  pe.kernel.run.store(pe.buffer, 0, tile);
  pe.kernel.end();
  CHECK(pe.since_start() == kIssue + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes);
}

TEST_CASE("a load or store takes the way to its HBM, whichever was taken before", "[pe][timing]") {
  Topology topology = overhead_topology();
  topology.sip.cubes_w = 2;
  PeUnderTest pe(topology);
  const DeviceBuffer remote = pe.dut.buffer({0, 1, 0}, 4096);
  const Endpoint tcm{Endpoint::Kind::tcm, kPe0};
  const Tile tile = pe.ready_tile(250);
  Time begun = pe.dut.now();
  const auto took = [&] {
    pe.kernel.end();
    return pe.dut.now() - std::exchange(begun, pe.dut.now());
  };
  for (const DeviceBuffer& buffer : {pe.buffer, remote, pe.buffer, remote}) {
    const Endpoint hbm{Endpoint::Kind::hbm, buffer.home};
    const Time command = kIssue + kDispatch + kSetup + kMmu;
    pe.kernel.run.store(buffer, 0, tile);
    CHECK(took() == command + pe.dut.path(tcm, hbm).time_of(1000));
    pe.kernel.run.load(buffer, 0, 250);
    CHECK(took() == command + pe.dut.path(hbm, tcm).time_of(1000));
  }
  const Endpoint of_remote{Endpoint::Kind::hbm, remote.home};
  CHECK(pe.dut.path(tcm, of_remote).time_of(1000) > pe.dut.hbm_time(kPe0, 1000));
}

TEST_CASE("a load of no elements costs everything but bytes and translation", "[pe][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.kernel.run.load(pe.buffer, 4096, 0);
  CHECK(pe.kernel.ready_at(tile) == kIssue + kDispatch + kSetup + kHbmPath);
}

TEST_CASE("the MMU adds its latency for every page that is touched", "[pe][mmu][timing]") {
  struct Case {
    Bytes address;
    std::int64_t begin;  // in elements of 4 B
    std::int64_t count;
    int pages;
  };
  const auto c = GENERATE(Case{0, 0, 1024, 1}, Case{0, 0, 1025, 2}, Case{0, 1023, 2, 2},
                          Case{0, 1024, 1024, 1}, Case{4092, 0, 1, 1}, Case{4092, 0, 2, 2},
                          Case{4092, 0, 1025, 2}, Case{4092, 0, 1026, 3}, Case{100, 0, 4096, 5});
  PeUnderTest pe;
  pe.buffer.address = c.address;
  const Tile tile = pe.kernel.run.load(pe.buffer, c.begin, c.count);
  CHECK(pe.kernel.ready_at(tile) ==
        kIssue + kDispatch + kSetup + kMmu * c.pages + pe.dut.hbm_time(kPe0, c.count * 4));
}

TEST_CASE("rows cost as much as their bytes in a stretch, but for the pages that they touch",
          "[pe][mmu][rows][timing]") {
  struct Case {
    ElementRange elements;  // of 4 B, in pages of 4096 B
    int pages;
  };
  const auto c = GENERATE(
      Case{{0, 10, 25, 40}, 1}, Case{{0, 10, 26, 40}, 1}, Case{{0, 25, 10, 400}, 4},
      Case{{1020, 8, 2, 8}, 2}, Case{{0, 50, 4, 1024}, 4}, Case{{1000, 50, 3, 1024}, 4},
      Case{{0, 72, 2, 3000}, 2}, Case{{0, 73, 2, 3000}, 3});  // 3072 elements are three pages
  PeUnderTest pe;
  const Tile tile = pe.kernel.run.load(pe.buffer, c.elements);
  CHECK(pe.kernel.ready_at(tile) == kIssue + kDispatch + kSetup + kMmu * c.pages +
                                        pe.dut.hbm_time(kPe0, 4 * c.elements.count()));
  CHECK(pe.dut.machine.op_log()[0].bytes == 4 * c.elements.count());
}

TEST_CASE("a load waits for a store to rows of which it has an element, only then",
          "[pe][rows][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.ready_tile(250);
  pe.kernel.run.store(pe.buffer, {0, 25, 10, 100}, tile);
  const std::int64_t begin = GENERATE(24, 25);  // of a column beside: 24 is its last, 25 is free
  const Tile loaded = pe.kernel.run.load(pe.buffer, {begin, 25, 10, 100});
  pe.kernel.ready_at(loaded);
  const Time stored = kIssue + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes;
  if (begin == 24) {
    CHECK(pe.since_start() == stored + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes);
  } else {
    CHECK(pe.since_start() < stored + kHbmPath);
  }
}

TEST_CASE("PE_MATH takes a cycle per `lanes` elements, rounded up", "[pe][math][timing]") {
  const std::int64_t count = GENERATE(0, 1, 15, 16, 17, 32, 1000);
  PeUnderTest pe;
  const Tile a = pe.ready_tile(count);
  const Tile sum = pe.kernel.run.math(MathOp::add, a, a);
  pe.kernel.ready_at(sum);
  CHECK(pe.since_start() == kIssue + kDispatch + ns((count + 15) / 16));
}

TEST_CASE("PE_MATH does one command at a time", "[pe][math][timing]") {
  PeUnderTest pe;
  const Tile a = pe.ready_tile(1600);  // 100 cycles
  const Tile first = pe.kernel.run.math(MathOp::add, a, a);
  const Tile second = pe.kernel.run.math(MathOp::add, a, a);
  pe.kernel.ready_at(first);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(100));
  pe.kernel.ready_at(second);
  CHECK(pe.since_start() == kIssue + kDispatch + ns(200));
}

TEST_CASE("load, math and store of a chain follow each other, a dispatch apart", "[pe][timing]") {
  PeUnderTest pe;
  const Tile a = pe.kernel.run.load(pe.buffer, 0, 250);
  const Tile sum = pe.kernel.run.math(MathOp::add, a, a);  // 16 cycles
  pe.kernel.run.store(pe.buffer, 500, sum);
  const Time loaded = kIssue + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes;
  const Time added = loaded + kDispatch + ns(16);
  CHECK(pe.kernel.ready_at(a) == loaded);
  CHECK(pe.kernel.ready_at(sum) == added);
  CHECK(pe.kernel.end() == added + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes);
}

TEST_CASE("the setups of two loads follow each other, their data share the link",
          "[pe][dma][timing]") {
  PeUnderTest pe;
  const Tile first = pe.kernel.run.load(pe.buffer, 0, 250);
  const Tile second = pe.kernel.run.load(pe.buffer, 1000, 250);
  // Both dispatched by 25 ns; setup ends at 35 and 55 ns; HBM serves the first for 25 ns, and the
  // NoC, which takes 50 ns for each, from 88 ns on.
  CHECK(pe.kernel.ready_at(first) == ns(35 + 3 + 53 + 50));
  CHECK(pe.kernel.ready_at(second) == ns(35 + 3 + 53 + 50 + 50));
}

TEST_CASE("two small loads are a setup apart", "[pe][dma][timing]") {
  PeUnderTest pe;
  const Tile first = pe.kernel.run.load(pe.buffer, 0, 5);  // 20 B: 1 ns
  const Tile second = pe.kernel.run.load(pe.buffer, 1000, 5);
  CHECK(pe.kernel.ready_at(first) == ns(35 + 3 + 53 + 1));
  CHECK(pe.kernel.ready_at(second) == ns(35 + 3 + 53 + 1 + 20));
}

TEST_CASE("operands that are ready late delay a command by a dispatch, early ones by nothing",
          "[pe][timing]") {
  PeUnderTest pe;
  const Tile a = pe.ready_tile(16);
  const Tile late = pe.kernel.run.load(pe.buffer, 0, 16);
  const Tile from_early = pe.kernel.run.math(MathOp::add, a, a);  // issued second: at 20 ns
  const Tile from_late = pe.kernel.run.math(MathOp::add, a, late);
  pe.kernel.ready_at(from_early);
  CHECK(pe.since_start() == 2 * kIssue + kDispatch + ns(1));
  pe.kernel.ready_at(late);
  const Time loaded = pe.since_start();
  pe.kernel.ready_at(from_late);
  CHECK(pe.since_start() == loaded + kDispatch + ns(1));
}

TEST_CASE("a load does not hold up a message: they have channels of their own",
          "[pe][dma][timing]") {
  PeUnderTest pe;
  IpcqChannel& channel = pe.dut.machine.connect(
      {kPe0, Direction::global_east, kFarPe0, Direction::global_west}, IpcqParams{});
  const Tile tile = pe.ready_tile(250);
  for (int i = 0; i < 8; ++i) pe.kernel.run.load(pe.buffer, 0, 4);  // 160 ns of setups
  pe.kernel.run.send(channel, tile);
  while (channel.message_count() == 0 && pe.dut.machine.engine().step()) {
  }
  // Issued ninth; PE_IPCQ takes 4 ns.
  CHECK(pe.since_start() ==
        9 * kIssue + kDispatch + kSetup + ns(4) + channel.data_path().time_of(1000));
}

TEST_CASE("a load waits for an overlapping store that was issued before it", "[pe][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.ready_tile(250);
  pe.kernel.run.store(pe.buffer, 0, tile);
  const std::int64_t begin = GENERATE(0, 249, 250);  // the first two overlap
  const Tile loaded = pe.kernel.run.load(pe.buffer, begin, 250);
  const Time stored = kIssue + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes;
  pe.kernel.ready_at(loaded);
  if (begin < 250) {
    CHECK(pe.since_start() == stored + kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes);
  } else {
    // Issued 10 ns later, in a channel of its own.  The store's head reaches the HBM slice at
    // 41 ns and takes 25 ns of it; the load would begin there at 48 ns, and begins at 66 ns.
    CHECK(pe.since_start() == ns(66) + kHbmPath + kThousandBytes);
  }
}

TEST_CASE("accesses that only touch do not wait for each other", "[pe][timing]") {
  PeUnderTest pe(test::round_topology());
  const Tile tile = pe.ready_tile(250);
  const std::int64_t stored = GENERATE(0, 500);  // 250 elements before and after the load's
  pe.kernel.run.store(pe.buffer, stored, tile);
  const Tile loaded = pe.kernel.run.load(pe.buffer, 250, 250);
  pe.kernel.ready_at(loaded);
  // Both start now; the store's head reaches the HBM slice at 3 ns, where the load's body is then,
  // for 25 ns.
  CHECK(pe.since_start() == kHbmPath + kThousandBytes);
}

TEST_CASE("a store waits for overlapping loads and stores that were issued before it",
          "[pe][timing]") {
  PeUnderTest pe;
  const Tile tile = pe.ready_tile(250);
  const Time access = kDispatch + kSetup + kMmu + kHbmPath + kThousandBytes;
  SECTION("write after read") {
    pe.kernel.run.load(pe.buffer, 100, 250);
    pe.kernel.run.store(pe.buffer, 0, tile);
    pe.kernel.end();
    CHECK(pe.since_start() == kIssue + 2 * access);
  }
  SECTION("write after write") {
    pe.kernel.run.store(pe.buffer, 100, tile);
    pe.kernel.run.store(pe.buffer, 0, tile);
    pe.kernel.end();
    CHECK(pe.since_start() == kIssue + 2 * access);
  }
  SECTION("a chain of three") {
    pe.kernel.run.store(pe.buffer, 0, tile);
    pe.kernel.run.load(pe.buffer, 0, 250);
    pe.kernel.run.store(pe.buffer, 0, tile);
    pe.kernel.end();
    CHECK(pe.since_start() == kIssue + 3 * access);
  }
  SECTION("another region is another matter") {
    const DeviceBuffer other = pe.dut.buffer(kPe0, 250);
    pe.kernel.run.load(other, 0, 250);
    pe.kernel.run.store(pe.buffer, 0, tile);
    pe.kernel.end();
    CHECK(pe.since_start() < kIssue + 2 * access);
  }
}

TEST_CASE("a load sees the version of the store before it, not of the one after", "[pe][data]") {
  PeUnderTest pe;
  MemoryStore& memory = pe.dut.machine.memory();
  memory.store(pe.buffer.region, 0, memory.constant(DType::f32, 4096, 1));
  const Tile one = pe.ready_tile(16);
  const Tile two = pe.kernel.run.math(MathOp::add, one, one);
  const Tile before = pe.kernel.run.load(pe.buffer, 0, 16);
  pe.kernel.run.store(pe.buffer, 0, two);
  const Tile after = pe.kernel.run.load(pe.buffer, 0, 16);
  pe.kernel.end();
  CHECK(find_base(*before->value.node()).node->scalar == 1);
  CHECK(find_base(*after->value.node()).node == two->value.node());
}

TEST_CASE("sends of one direction depart in order, whichever operand is ready first",
          "[pe][ipcq]") {
  PeUnderTest pe;
  const PeLocation far1{1, 0, 1};
  IpcqChannel& east = pe.dut.machine.connect(
      {kPe0, Direction::global_east, kFarPe0, Direction::global_west}, IpcqParams{});
  IpcqChannel& north = pe.dut.machine.connect(
      {kPe0, Direction::global_north, far1, Direction::global_south}, IpcqParams{});
  const Tile ready = pe.ready_tile(16);
  const Tile late = pe.kernel.run.load(pe.buffer, 0, 250);
  pe.kernel.run.send(east, late);
  pe.kernel.run.send(east, ready);
  pe.kernel.run.send(north, ready);
  while (north.message_count() == 0 && pe.dut.machine.engine().step()) {
  }
  CHECK(east.message_count() == 0);  // another direction overtakes
  pe.kernel.end();
  REQUIRE(east.message_count() == 2);
  CHECK(east.pop().element_count == 250);
  CHECK(east.pop().element_count == 16);
}

TEST_CASE("with every overhead 0 and every rate unlimited a chain costs no time", "[pe][timing]") {
  PeUnderTest pe(test::free_topology());
  const Tile a = pe.kernel.run.load(pe.buffer, 0, 250);
  const Tile sum = pe.kernel.run.math(MathOp::add, a, a);
  pe.kernel.run.store(pe.buffer, 0, sum);
  CHECK(pe.kernel.end() == Time{0});
}

TEST_CASE("a chain over a free machine costs exactly the link that is studied", "[pe][timing]") {
  Topology topology = test::free_topology();
  topology.system.sip_link = {Bandwidth{10'000'000'000}, ns(100)};
  PeUnderTest pe(topology);
  const DeviceBuffer far = pe.dut.buffer(kFarPe0, 250);
  const Tile a = pe.kernel.run.load(far, 0, 250);
  const Tile sum = pe.kernel.run.math(MathOp::add, a, a);
  pe.kernel.run.store(far, 0, sum);
  CHECK(pe.kernel.end() == 2 * (ns(100) + ns(100)));  // there and back
}

TEST_CASE("every finished command is in the op log, with its unit and its times", "[pe][data]") {
  PeUnderTest pe;
  const Tile a = pe.kernel.run.load(pe.buffer, 0, 250);
  const Tile sum = pe.kernel.run.math(MathOp::add, a, a);
  pe.kernel.run.store(pe.buffer, 0, sum);
  pe.kernel.end();
  const CommandLog& log = pe.dut.machine.op_log();
  REQUIRE(log.size() == 3);
  CHECK(log[0] == OpRecord{OpKind::load, DType::f32, 0, ns(15), ns(141), 1000, 250});
  CHECK(log[1] == OpRecord{OpKind::math, DType::f32, 0, ns(146), ns(162), 1000, 250});
  CHECK(log[2] == OpRecord{OpKind::store, DType::f32, 0, ns(167), ns(293), 1000, 250});
}

}  // namespace kernbench::sim::processing_element_test
