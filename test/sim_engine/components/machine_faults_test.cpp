// Links at a share of their bandwidth, and PEs at a share of their clocks.

#include "sim_engine/components/machine_faults.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "test/sim_engine/components/fabric_under_test.h"
#include "test/sim_engine/components/machine_under_test.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::machine_faults_test {

namespace {

Topology with_fault(Topology topology, std::string_view text) {
  ParsedFault parsed = parse_fault(text);
  REQUIRE(parsed.wrong == "");
  topology.faults.push_back(std::move(parsed.fault));
  return topology;
}

SlowStretch stretch(std::int64_t from, std::int64_t to, int millionths) {
  return {ns(from), ns(to), Share{millionths}, 0};
}

// From SIP 0 to SIP 1 over 10 GB/s and 500 ns: 100 B take 10 ns there, and nothing else any time.
struct SlowLinkUnderTest {
  SlowLinkUnderTest(std::string_view fault, Bytes packet)
      : SlowLinkUnderTest(std::vector<std::string>{std::string(fault)}, packet) {}
  SlowLinkUnderTest(const std::vector<std::string>& given, Bytes packet)
      : fabric([&] {
          Topology made = test::link_topology(SipTopology::ring_1d, 2);
          made.system.sip_link = {Bandwidth{10'000'000'000}, ns(500)};
          made.communication.packet = packet;
          for (const std::string& fault : given) made = with_fault(std::move(made), fault);
          return made;
        }()),
        faults(MachineFaults::make(fabric.topology, fabric.fabric.routing())) {
    fabric.fabric.set_faults(*faults);
  }
  void send(Bytes bytes, std::uint64_t id = 0) {
    fabric.send({Endpoint::Kind::tcm, {0, 0, 0}}, {Endpoint::Kind::tcm, {1, 0, 0}}, bytes, id);
  }

  FabricUnderTest fabric;
  const std::unique_ptr<MachineFaults> faults;
};

}  // namespace

TEST_CASE("work takes longer by what lies in a slow stretch", "[faults]") {
  const std::vector<SlowStretch> slow = {stretch(100, 200, 250'000)};
  CHECK(slowed_time(ns(0), ns(50), slow) == ns(50));
  CHECK(slowed_time(ns(120), ns(10), slow) == ns(40));
  CHECK(slowed_time(ns(90), ns(20), slow) == ns(10 + 40));
  CHECK(slowed_time(ns(90), ns(40), slow) == ns(10 + 100 + 5));
  CHECK(slowed_time(ns(190), ns(40), slow) == Time{10'000 + 37'500});
  CHECK(slowed_time(ns(200), ns(40), slow) == ns(40));
  CHECK(slowed_time(ns(150), ns(0), slow) == ns(0));
}

TEST_CASE("where stretches overlap the least share counts", "[faults]") {
  const std::vector<SlowStretch> slow = {stretch(0, 100, 500'000), stretch(50, 150, 250'000)};
  CHECK(slowed_time(ns(0), ns(25), slow) == ns(50));
  CHECK(slowed_time(ns(0), ns(50), slow) == ns(50 + 100));
  CHECK(slowed_time(ns(0), ns(51), slow) == ns(50 + 100 + 1));
}

TEST_CASE("a time of a share is rounded up to a whole picosecond", "[faults]") {
  const std::vector<SlowStretch> slow = {{Time{0}, Time::max(), Share{300'000}, 0}};
  CHECK(slowed_time(Time{0}, Time{1}, slow) == Time{4});
  CHECK(slowed_time(Time{0}, Time{3}, slow) == Time{10});
}

TEST_CASE("messages take a slow link one after the other", "[faults]") {
  const Bytes packet = GENERATE(0, 1024);
  CAPTURE(packet);
  SlowLinkUnderTest dut("link=sip0.link.east bandwidth=x0.25", packet);
  for (std::uint64_t id = 0; id < 3; ++id) dut.send(100, id);
  dut.fabric.engine.run();
  CHECK(dut.fabric.delivered ==
        std::map<std::uint64_t, Time>{{0, ns(540)}, {1, ns(580)}, {2, ns(620)}});
  const FaultEffect& effect = dut.faults->effects().front();
  CHECK(effect.count == 3);
  CHECK(effect.added == ns(3 * 30));
}

// The second waits until 40 ns, and is timed from then on.
TEST_CASE("a message that waits has the bandwidth of when it begins", "[faults]") {
  const Bytes packet = GENERATE(0, 1024);
  CAPTURE(packet);
  SlowLinkUnderTest dut("link=sip0.link.east bandwidth=x0.25 to=60ns", packet);
  for (std::uint64_t id = 0; id < 3; ++id) dut.send(100, id);
  dut.fabric.engine.run();
  CHECK(dut.fabric.delivered ==
        std::map<std::uint64_t, Time>{{0, ns(540)}, {1, ns(565)}, {2, ns(575)}});
}

TEST_CASE("a dead link loses what is on it, and what comes to it", "[faults]") {
  const Bytes packet = GENERATE(0, 1024);
  CAPTURE(packet);
  SlowLinkUnderTest dut("link=sip0.link.east dead=15ns to=25ns", packet);
  for (std::uint64_t id = 0; id < 4; ++id) dut.send(100, id);
  dut.fabric.engine.run();
  CHECK(dut.fabric.delivered == std::map<std::uint64_t, Time>{{0, ns(510)}, {3, ns(540)}});
  CHECK(describe(dut.faults->effects().front()) ==
        "link=sip0.link.east dead=15ns to=25ns: 2 times, first at 10 ns: "
        "100 B from sip0 to sip1 are lost");
}

// In both orders: the least share counts, and a link that is dead is dead.
TEST_CASE("of several faults of one link, that one acts which slows most", "[faults]") {
  std::vector<std::string> faults = {"link=sip0.link.east bandwidth=x0.5",
                                     "link=sip0.link.east dead=15ns"};
  if (GENERATE(false, true)) faults[1] = "link=sip0.link.east bandwidth=x0.25";
  const bool is_dead = faults[1].find("dead") != std::string::npos;
  if (GENERATE(false, true)) std::ranges::reverse(faults);
  CAPTURE(faults);
  SlowLinkUnderTest dut(faults, 0);
  dut.send(100);
  dut.fabric.engine.run();
  CHECK(dut.fabric.delivered ==
        (is_dead ? std::map<std::uint64_t, Time>{} : std::map<std::uint64_t, Time>{{0, ns(540)}}));
  for (const FaultEffect& effect : dut.faults->effects()) {
    CHECK(effect.count == (effect.fault.find("x0.5") == std::string::npos ? 1 : 0));
  }
}

TEST_CASE("a fault of another link changes no time", "[faults]") {
  SlowLinkUnderTest dut("link=sip1.link.east bandwidth=x0.25", 1024);
  for (std::uint64_t id = 0; id < 3; ++id) dut.send(100, id);
  dut.fabric.engine.run();
  CHECK(dut.fabric.delivered ==
        std::map<std::uint64_t, Time>{{0, ns(510)}, {1, ns(520)}, {2, ns(530)}});
}

// 256 elements in 16 lanes at 1 GHz.
TEST_CASE("a PE at a share of its clock computes for so much longer", "[faults]") {
  const auto took = [](std::string_view fault) {
    ReadyKernel dut(fault.empty() ? overhead_topology() : with_fault(overhead_topology(), fault));
    return dut.took(dut.kernel.run.math(MathOp::add, dut.a, dut.b));
  };
  CHECK(took("") == ns(16));
  CHECK(took("pe=sip0.cube0.pe0 clock=x0.8") == ns(20));
  CHECK(took("pe=sip0.cube0 clock=x0.8") == ns(20));
  CHECK(took("rank=0 clock=x0.8") == ns(20));
  CHECK(took("pe=sip0.cube0.pe1 clock=x0.8") == ns(16));
  CHECK(took("rank=1 clock=x0.8") == ns(16));
}

TEST_CASE("several noises of a rank multiply, each by what it adds", "[faults]") {
  Topology topology = with_fault(overhead_topology(), "compute=normal sigma=0.5 seed=1");
  const auto took = [](const Topology& noisy) {
    MachineFaults faults(*MachineFaults::make(noisy, Routing(noisy)));
    faults.begin_kernel({0, 0, 0});
    return faults.computing_time({0, 0, 0}, false, ns(0), ns(1'000'000));
  };
  const Time first = took(topology);
  const Time second = took(with_fault(overhead_topology(), "compute=normal sigma=0.25 seed=2"));
  const Time both = took(with_fault(topology, "compute=normal sigma=0.25 seed=2"));
  CHECK(to_ns(both) == Approx(to_ns(first) * to_ns(second) / 1e6));
  CHECK(first != second);
}

TEST_CASE("a fault that names no part of the machine is refused with the nearest name",
          "[faults][errors]") {
  const Topology topology = test::round_topology(SipTopology::ring_1d, 4);
  const auto refusal_of = [&](std::string_view fault) {
    return test::config_error_of([&] { Machine(with_fault(topology, fault), {}); });
  };
  using test::Says;
  CHECK_THAT(refusal_of("link=sip0.link.eest bandwidth=x0.5"),
             Says("KB-Y051", "'sip0.link.eest'", "did you mean 'sip0.link.east'?"));
  CHECK_THAT(refusal_of("link=sip0.wst dead=1us"), Says("KB-Y051", "'sip0.west'"));
  CHECK_THAT(refusal_of("link=cable dead=1us"), Says("KB-Y051", "there is", "'sip0.host.down'"));
  CHECK_THAT(refusal_of("link=sip1.cube0 dead=1us"), Says("KB-Y051", "there is", "sip1.cube0."));
  CHECK_THAT(refusal_of("pe=sip0.cube0.pe9 clock=x0.5"), Says("KB-Y051", "'sip0.cube0.pe0'"));
  CHECK_THAT(refusal_of("rank=4 start=1us"), Says("KB-Y051", "rank 4", "0 to 3"));
  CHECK(refusal_of("link=sip3.east bandwidth=x0.5") == "no error");
  Topology nodes = test::in_nodes(test::joined_topology(SipTopology::switched, 8), 4);
  nodes.system.network_switch.core = {Bandwidth{10'000'000'000}, Time{100'000}};
  const auto refusal_in_nodes = [&](std::string_view fault) {
    return test::config_error_of([&] { Machine(with_fault(nodes, fault), {}); });
  };
  CHECK(refusal_in_nodes("link=node1.switch.core bandwidth=x0.5") == "no error");
  CHECK_THAT(refusal_in_nodes("link=node2.switch.core bandwidth=x0.5"),
             Says("KB-Y051", "'node2.switch.core'", "'node0.switch.core'"));
  Topology part = with_fault(topology, "link=sip3.link.east bandwidth=x0.5");
  CHECK_NOTHROW(Machine(in_ring(part, 2), {}));
}

}  // namespace kernbench::sim::machine_faults_test
