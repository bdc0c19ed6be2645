// Long and short transfers on one way, to the picosecond, where a transfer gives way after a
// packet.

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "sim_engine/components/fabric.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::packets_test {

namespace {

constexpr Time ns(std::int64_t count) {
  return Time{count * 1000};
}

// From SIP 0 to SIP 1 over 10 GB/s: 100 B take 10 ns there, and everything else is faster.
struct FabricUnderTest {
  explicit FabricUnderTest(Bytes packet)
      : topology([&] {
          Topology made = test::link_topology(SipTopology::ring_1d, 2);
          made.system.sip_link = {Bandwidth{10'000'000'000}, ns(500)};
          made.communication.packet = packet;
          return made;
        }()) {}

  void send(Time at, Bytes bytes, Priority priority = Priority::bulk) {
    sends.push_back({bytes, priority});
    engine.schedule<&FabricUnderTest::begin>(at, this, sends.size() - 1);
  }
  std::vector<Time> run() {
    delivered.resize(sends.size());
    engine.run();
    return delivered;
  }

  void begin(std::uint64_t number) {
    const auto& [bytes, priority] = sends[number];
    fabric.send(fabric.path({Endpoint::Kind::tcm, {0, 0, 0}}, {Endpoint::Kind::tcm, {1, 0, 0}}),
                bytes, Engine::call<&FabricUnderTest::note>(this, number), Time{0}, priority);
  }
  void note(std::uint64_t number) { delivered[number] = engine.now(); }

  struct Sent {
    Bytes bytes = 0;
    Priority priority = Priority::bulk;
  };
  const Topology topology;
  Engine engine;
  Fabric fabric{engine, topology, nullptr};
  std::vector<Sent> sends;
  std::vector<Time> delivered;
};

using Times = std::vector<Time>;

}  // namespace

TEST_CASE("without packets a short transfer waits for the whole of a long one", "[packets]") {
  FabricUnderTest dut(0);
  dut.send(ns(0), 100'000);
  dut.send(ns(3), 100);
  CHECK(dut.run() == Times{ns(10'500), ns(10'510)});
}

TEST_CASE("a short message waits for one packet, and the long transfer for it", "[packets]") {
  FabricUnderTest dut(1000);  // 100 ns
  dut.send(ns(0), 100'000);
  dut.send(ns(3), 100, Priority::communication);
  dut.send(ns(850), 1000, Priority::communication);
  dut.send(ns(850), 1001);
  // Packets end at 100, then at 110 + 100 k; the last transfer waits for the long one.
  CHECK(dut.run() == Times{ns(10'500 + 110), ns(100 + 10 + 500), ns(910 + 100 + 500),
                           ns(10'500 + 110) + Time{100'100}});
}

TEST_CASE("without communication transfers pass whole, in order", "[packets]") {
  FabricUnderTest dut(1000);
  dut.send(ns(0), 100'000);
  dut.send(ns(3), 100);
  CHECK(dut.run() == Times{ns(10'500), ns(10'510)});
}

TEST_CASE("of long transfers communication goes ahead, and leaves as much to others", "[packets]") {
  FabricUnderTest dut(1000);
  dut.send(ns(0), 100'000);
  dut.send(ns(30), 10'000, Priority::communication);
  dut.send(ns(40), 10'000, Priority::communication);
  // 1,000 ns each: the first from 100 to 1,100, the second when the long one had 1,000 more.
  CHECK(dut.run() == Times{ns(12'500), ns(1'600), ns(3'600)});
}

TEST_CASE("what others have done meanwhile does not change when a link is free again",
          "[packets]") {
  const Bytes packet = GENERATE(0, 64, 1000, 50'000);
  FabricUnderTest dut(packet);
  for (int i = 0; i < 50; ++i) {
    dut.send(Time{137'000 * i}, 20 + 997 * i % 5000,
             i % 3 == 0 ? Priority::communication : Priority::bulk);
  }
  dut.send(ns(0), 100'000);
  const Times delivered = dut.run();
  Bytes bytes = 0;
  for (const auto& sent : dut.sends) bytes += sent.bytes;
  // The link is at work from the first to the last byte.
  CHECK(*std::max_element(delivered.begin(), delivered.end()) == ns(500) + Time{bytes * 100});
  Time busiest{0};
  for (LinkId link = 0; link < dut.fabric.routing().link_count(); ++link) {
    busiest = std::max(busiest, dut.fabric.busy(link));
  }
  CHECK(busiest == Time{bytes * 100});
}

}  // namespace kernbench::sim::packets_test
