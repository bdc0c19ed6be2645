#include "sim_engine/components/launcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "sim_engine/base/check.h"
#include "test/sim_engine/components/machine_under_test.h"

namespace kernbench::sim::launcher_test {

namespace {

// 2 SIPs of 2 x 1 cubes of 2 PEs; IO_CPU takes 30 ns per cube and M_CPU 7 ns per PE.
Topology launch_topology() {
  Topology topology = test::round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.sip.io_cpu_dispatch = ns(30);
  topology.cube.m_cpu_dispatch = ns(7);
  return topology;
}

// A message of 64 B: over the host link (200 ns at 10 GB/s), over `cubes` UCIe links (5 ns each at
// 100 GB/s), over a PE's NoC port (2 ns at 20 GB/s).
constexpr Time kHost{206'400};
constexpr Time ucie(int cubes) {
  return ns(5) * cubes + Time{640};
}
constexpr Time kNoc{5'200};

struct LauncherUnderTest {
  MachineUnderTest dut{launch_topology()};
  Launcher& launcher = dut.machine.launcher();

  // A launch that notes when its PEs start and when the host knows that it is done.
  struct Launched {
    LauncherUnderTest& test;
    Launcher::Launch* launch = nullptr;
    std::map<std::uint64_t, Time> started{};
    std::vector<Time> done{};
    bool finishes_at_once = false;

    void start(std::uint64_t index) {
      started[index] = test.dut.now();
      if (finishes_at_once) test.launcher.kernel_finished(*launch, index);
    }
    void note_done() { done.push_back(test.dut.now()); }
    void begin(const std::vector<PeLocation>& pes) {
      launch = &test.launcher.launch(pes, Engine::call<&Launched::start>(this),
                                     Engine::call<&Launched::note_done>(this));
    }
  };
  void run() { dut.machine.engine().run(); }
};

using Launched = LauncherUnderTest::Launched;

std::vector<PeLocation> all_pes(int sip) {
  return {{sip, 0, 0}, {sip, 0, 1}, {sip, 1, 0}, {sip, 1, 1}};
}

// When PE `pe` of cube `cube` starts, if the IO_CPU passes the launch on to `before` cubes first.
Time start_of(int cube, int pe, int before) {
  return kHost + ns(30) * (before + 1) + ucie(cube + 1) + ns(7) * (pe + 1) + kNoc;
}

}  // namespace

TEST_CASE("a PE starts after host link, IO_CPU, UCIe, M_CPU and NoC", "[launcher][timing]") {
  LauncherUnderTest test;
  Launched launched{test};
  launched.begin(all_pes(1));
  test.run();
  REQUIRE(launched.started.size() == 4);
  CHECK(launched.started[0] == start_of(0, 0, 0));
  CHECK(launched.started[1] == start_of(0, 1, 0));
  CHECK(launched.started[2] == start_of(1, 0, 1));
  CHECK(launched.started[3] == start_of(1, 1, 1));
  CHECK(launched.done.empty());
}

TEST_CASE("cubes and PEs that take no part cost nothing", "[launcher][timing]") {
  LauncherUnderTest test;
  Launched launched{test};
  launched.begin({{0, 1, 1}});
  test.run();
  CHECK(launched.started[0] == start_of(1, 0, 0));
}

TEST_CASE("the host learns of the end over NoC, UCIe and its own link", "[launcher][timing]") {
  LauncherUnderTest test;
  Launched launched{test};
  launched.begin({{0, 1, 0}});
  test.run();
  const Time finished = test.dut.now() + ns(1000);
  struct Finish {
    Launched& launched;
    void now() { launched.test.launcher.kernel_finished(*launched.launch, 0); }
  } finish{launched};
  test.dut.machine.engine().schedule<&Finish::now>(ns(1000), &finish);
  test.run();
  CHECK(launched.done == std::vector{finished + kNoc + ucie(2) + kHost});
}

TEST_CASE("launch_time() is that of a launch whose kernels take none", "[launcher][timing]") {
  for (const int cubes : {1, 2}) {
    LauncherUnderTest test;
    Launched launched{.test = test, .finishes_at_once = true};
    std::vector<PeLocation> pes = all_pes(1);
    pes.resize(static_cast<std::size_t>(2 * cubes));
    launched.begin(pes);
    test.run();
    CHECK(launched.done == std::vector{launch_time(launch_topology(), cubes, 2)});
  }
}

TEST_CASE("the host learns of the end once, after the last PE of the last cube",
          "[launcher][timing]") {
  LauncherUnderTest test;
  Launched launched{test};
  launched.finishes_at_once = true;
  launched.begin(all_pes(0));
  test.run();
  CHECK(launched.done == std::vector{start_of(1, 1, 1) + kNoc + ucie(2) + kHost});
}

TEST_CASE("two launches at once share host link, IO_CPU and M_CPU", "[launcher][timing]") {
  LauncherUnderTest test;
  Launched first{test};
  Launched second{test};
  first.begin(all_pes(0));
  second.begin(all_pes(0));
  Launched other_sip{test};
  other_sip.begin(all_pes(1));
  test.run();
  CHECK(first.started[0] == start_of(0, 0, 0));
  CHECK(first.started[3] == start_of(1, 1, 1));
  // The IO_CPU is busy with the first launch for 60 ns, and the second is there 6.4 ns later.
  CHECK(second.started[0] == start_of(0, 0, 2));
  CHECK(second.started[3] == start_of(1, 1, 3));
  CHECK(other_sip.started[0] == start_of(0, 0, 0));
}

TEST_CASE("an M_CPU that is busy keeps a launch waiting", "[launcher][timing]") {
  Topology topology = launch_topology();
  topology.sip.io_cpu_dispatch = ns(1);
  topology.system.host_link.bandwidth = Bandwidth::unlimited();
  topology.sip.ucie.bandwidth = Bandwidth::unlimited();
  LauncherUnderTest test{MachineUnderTest(topology)};
  Launched first{test};
  Launched second{test};
  first.begin({{0, 0, 0}, {0, 0, 1}});
  second.begin({{0, 0, 0}, {0, 0, 1}});
  test.run();
  // At the M_CPU at 206 ns and 207 ns; it takes 7 ns for each of four PEs.
  for (std::uint64_t pe = 0; pe < 2; ++pe) {
    CHECK(first.started[pe] == ns(206 + 7 * (static_cast<int>(pe) + 1)) + kNoc);
    CHECK(second.started[pe] == ns(206 + 7 * (static_cast<int>(pe) + 3)) + kNoc);
  }
}

TEST_CASE("launch objects are used again, and each launch tells its own", "[launcher]") {
  LauncherUnderTest test;
  Launcher::Launch* previous = nullptr;
  for (int round = 0; round < 5; ++round) {
    Launched launched{test};
    launched.finishes_at_once = true;
    launched.begin(all_pes(round % 2));
    if (previous != nullptr) CHECK(launched.launch == previous);
    previous = launched.launch;
    test.run();
    CHECK(launched.started.size() == 4);
    CHECK(launched.done.size() == 1);
  }
}

TEST_CASE("a launch that is dropped at any moment leaves no trace", "[launcher]") {
  for (int steps = 0; steps < 40; ++steps) {
    LauncherUnderTest test;
    {
      Launched dropped{test};
      dropped.finishes_at_once = true;
      dropped.begin(all_pes(0));
      for (int i = 0; i < steps; ++i) test.dut.machine.engine().step();
      test.dut.machine.abandon_work_under_way();
    }  // were it called now, this would be found by AddressSanitizer
    const Time start = test.dut.now();
    Launched launched{test};
    launched.finishes_at_once = true;
    launched.begin(all_pes(0));
    test.run();
    CHECK(launched.started[0] - start == start_of(0, 0, 0));
    CHECK(launched.started[3] - start == start_of(1, 1, 1));
    CHECK(launched.done == std::vector{start + start_of(1, 1, 1) + kNoc + ucie(2) + kHost});
  }
}

TEST_CASE("CPUs that were reserved far ahead are free once their launches are dropped",
          "[launcher][timing]") {
  Topology topology = launch_topology();
  topology.sip.io_cpu_dispatch = ns(GENERATE(0, 1000));
  topology.cube.m_cpu_dispatch = ns(1000);
  LauncherUnderTest test{MachineUnderTest(topology)};
  const auto start_of_one = [&] {
    const Time begin = test.dut.now();
    Launched launched{test};
    launched.begin({{0, 1, 1}});
    test.run();
    return launched.started.at(0) - begin;
  };
  const Time idle = start_of_one();
  std::vector<Launched> dropped(10, Launched{test});
  for (Launched& launched : dropped) launched.begin(all_pes(0));
  while (dropped.front().started.empty()) test.dut.machine.engine().step();
  test.dut.machine.abandon_work_under_way();
  CHECK(start_of_one() == idle);
}

TEST_CASE("a launch on no PE, on two SIPs, or that ends twice is our own fault", "[launcher]") {
  LauncherUnderTest test;
  Launched launched{test};
  CHECK_THROWS_AS(launched.begin({}), InternalError);
  CHECK_THROWS_AS(launched.begin({{0, 0, 0}, {1, 0, 0}}), InternalError);
  launched.begin({{0, 0, 0}});
  test.run();
  test.launcher.kernel_finished(*launched.launch, 0);
  test.launcher.kernel_finished(*launched.launch, 0);
  CHECK_THROWS_AS(test.run(), InternalError);
}

}  // namespace kernbench::sim::launcher_test
