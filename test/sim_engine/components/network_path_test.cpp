// Messages over switches, full meshes, 3-D tori, parallel links and IO chiplets: where they go, and
// how long they take, to the picosecond.

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/sim_engine/components/fabric_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::network_path_test {
namespace {

constexpr std::int64_t kGBs = 1'000'000'000;
constexpr Time kAlpha{500'000};
constexpr Bytes kBytes = 1000;
constexpr Time kBody{20'000};  // of so many bytes, at 50 GB/s

Endpoint tcm(int sip, int pe = 0) {
  return {Endpoint::Kind::tcm, {sip, 0, pe}};
}

struct Messages : FabricUnderTest {
  using FabricUnderTest::FabricUnderTest;

  void send(const Endpoint& from, const Endpoint& to, std::uint64_t id) {
    FabricUnderTest::send(from, to, kBytes, id);
  }
  Time alone(const Endpoint& from, const Endpoint& to) { return time_of(from, to, kBytes); }
  std::vector<std::string> way(const Endpoint& from, const Endpoint& to) {
    std::vector<std::string> names;
    for (const LinkId link : fabric.path(from, to).hops) {
      names.push_back(fabric.routing().name(link));
    }
    return names;
  }
};

TEST_CASE("a full mesh: one link to each, all at once", "[fabric][network][timing]") {
  Messages mesh(test::joined_topology(SipTopology::full_mesh, 4));
  CHECK(mesh.way(tcm(1), tcm(3)) == std::vector<std::string>{"sip1.link.to_sip3"});
  CHECK(mesh.alone(tcm(1), tcm(3)) == kAlpha + kBody);
  const Time begin = mesh.engine.now();
  for (int to = 1; to < 4; ++to) mesh.send(tcm(0), tcm(to), static_cast<std::uint64_t>(to));
  mesh.engine.run();
  for (std::uint64_t to = 1; to < 4; ++to) CHECK(mesh.delivered[to] - begin == kAlpha + kBody);
}

TEST_CASE("a switch: a link to it and one from it, which messages share",
          "[fabric][network][timing]") {
  Topology topology = test::joined_topology(SipTopology::switched, 4);
  topology.system.network_switch.core.latency = Time{70'000};
  Messages star(topology);
  CHECK(star.way(tcm(1), tcm(3)) ==
        std::vector<std::string>{"sip1.link.to_switch", "switch.core", "sip3.link.from_switch"});
  const Time alone = 2 * kAlpha + Time{70'000} + kBody;
  CHECK(star.alone(tcm(1), tcm(3)) == alone);
  const Time begin = star.engine.now();
  for (int from = 0; from < 3; ++from)
    star.send(tcm(from), tcm(3), static_cast<std::uint64_t>(from));
  star.send(tcm(3), tcm(0), 3);  // the other way
  star.engine.run();
  for (int from = 0; from < 3; ++from) {
    CHECK(star.delivered[static_cast<std::uint64_t>(from)] - begin == alone + from * kBody);
  }
  CHECK(star.delivered[3] - begin == alone);
}

TEST_CASE("an oversubscribed switch: all messages share its core", "[fabric][network][timing]") {
  Topology topology = test::joined_topology(SipTopology::switched, 4);
  topology.system.network_switch.core.bandwidth = {100 * kGBs};  // of 200
  Messages star(topology);
  for (int sip = 0; sip < 4; ++sip) {
    star.send(tcm(sip), tcm(sip ^ 1), static_cast<std::uint64_t>(sip));
  }
  star.engine.run();
  for (int sip = 0; sip < 4; ++sip) {
    CHECK(star.delivered[static_cast<std::uint64_t>(sip)] == 2 * kAlpha + kBody + sip * kBody / 2);
  }
}

TEST_CASE("a 3-D torus: x, then y, then z, the shorter ways", "[fabric][network][timing]") {
  Messages torus(test::joined_topology(SipTopology::torus_3d, 4, 3, 3));
  const Grid grid = sip_grid(torus.topology);
  const Endpoint to = tcm(grid.index_of(3, 2, 1));
  CHECK(torus.way(tcm(0), to) ==
        std::vector<std::string>{"sip0.link.west", "sip3.link.north", "sip11.link.down"});
  CHECK(torus.alone(tcm(0), to) == 3 * kAlpha + kBody);
}

TEST_CASE("parallel links: k messages of k PEs at once, one PE's after each other",
          "[fabric][network][timing]") {
  Topology topology = test::link_topology(SipTopology::ring_1d, 2);
  topology.cube.pe_per_corner = 4;
  topology.system.links_per_pair = 3;
  Messages pair(topology);
  CHECK(pair.way(tcm(0, 1), tcm(1, 2)) == std::vector<std::string>{"sip0.link.east[1]"});
  for (int pe = 0; pe < 4; ++pe) pair.send(tcm(0, pe), tcm(1, pe), static_cast<std::uint64_t>(pe));
  pair.engine.run();
  for (std::uint64_t pe = 0; pe < 3; ++pe) CHECK(pair.delivered[pe] == kAlpha + kBody);
  CHECK(pair.delivered[3] == kAlpha + 2 * kBody);  // shares link 0 with PE 0
}

TEST_CASE("an IO chiplet: a hop out, one for each SIP on the way, one in",
          "[fabric][network][timing]") {
  Topology topology = test::link_topology(SipTopology::mesh_2d_no_wrap, 3);
  topology.sip.io_hop = {Bandwidth{25 * kGBs}, Time{30'000}};  // half the link's
  Messages line(topology);
  CHECK(line.way(tcm(0), tcm(2)) == std::vector<std::string>{"sip0.io.out", "sip0.link.east",
                                                             "sip1.io.out", "sip1.link.east",
                                                             "sip2.io.in"});
  CHECK(line.alone(tcm(0), tcm(2)) == 2 * kAlpha + 3 * Time{30'000} + 2 * kBody);
}

TEST_CASE("every pair of SIPs of every network obeys its path's closed form",
          "[fabric][network][timing]") {
  for (const SipTopology kind :
       {SipTopology::torus_3d, SipTopology::full_mesh, SipTopology::switched}) {
    Topology topology = test::joined_topology(kind, 3, 2, 2);
    topology.system.network_switch.core = {Bandwidth{70 * kGBs}, Time{9'000}};
    topology.sip.io_hop = {Bandwidth{80 * kGBs}, Time{4'000}};
    Messages dut(topology);
    for (int from = 0; from < 12; ++from) {
      for (int to = 0; to < 12; ++to) {
        CHECK(dut.alone(tcm(from), tcm(to)) == dut.fabric.path(tcm(from), tcm(to)).time_of(kBytes));
      }
    }
  }
}

}  // namespace
}  // namespace kernbench::sim::network_path_test
