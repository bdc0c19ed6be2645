#include "sim_engine/components/fabric.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "test/sim_engine/components/fabric_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::fabric_test {

namespace {

Endpoint tcm(int sip, int cube, int pe) {
  return {Endpoint::Kind::tcm, {sip, cube, pe}};
}

std::vector<std::string> names(const Routing& routing, const Path& path) {
  std::vector<std::string> names;
  for (const LinkId link : path.links) names.push_back(routing.name(link));
  return names;
}

}  // namespace

TEST_CASE("an unloaded message takes the sum of latencies plus bytes over the slowest link",
          "[fabric][timing]") {
  FabricUnderTest dut(test::round_topology());
  // tcm 1 ns, noc 2 ns, sip link 100 ns at 10 GB/s (the slowest), ucie 5 ns.
  const auto in_cube = tcm(0, 0, 1);
  CHECK(dut.time_of(tcm(0, 0, 0), in_cube, 1000) == Time{1000 * (1 + 2 + 2 + 1)} + Time{1000 * 50});
  const Time across = dut.time_of(tcm(0, 0, 0), tcm(1, 0, 0), 1000);
  CHECK(across == Time{1000 * (1 + 2 + 5 + 100 + 5 + 2 + 1)} + Time{100'000});
}

TEST_CASE("every pair of endpoints obeys its own path's closed form", "[fabric][timing]") {
  const auto kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  FabricUnderTest dut(test::round_topology(kind, 3, 3, 3, 2));
  for (const int sip : {0, 4, 8}) {
    for (const int cube : {0, 5}) {
      for (const Endpoint::Kind memory :
           {Endpoint::Kind::tcm, Endpoint::Kind::sram, Endpoint::Kind::hbm}) {
        const Endpoint from{memory, {sip, cube, 1}};
        for (int to_sip = 0; to_sip < dut.topology.system.sip_count; ++to_sip) {
          const Endpoint to{Endpoint::Kind::tcm, {to_sip, 2, 0}};
          const Path& path = dut.fabric.path(from, to);
          CHECK(dut.time_of(from, to, 777) == path.time_of(777));
        }
      }
    }
  }
}

TEST_CASE("streams over one link share its bandwidth and none starves", "[fabric][timing]") {
  FabricUnderTest dut(test::round_topology());
  constexpr int kMessages = 50;
  for (int i = 0; i < kMessages; ++i) {
    for (int stream = 0; stream < 2; ++stream) {
      dut.send(tcm(0, 0, stream), tcm(1, 0, stream), 1000,
               static_cast<std::uint64_t>(i * 2 + stream));
    }
  }
  dut.engine.run();
  // The link moves 1000 B in 100 ns: 100 messages take 10 us, plus the latency of the way.
  const Time latency = dut.fabric.path(tcm(0, 0, 0), tcm(1, 0, 0)).latency;
  Time last{0};
  for (const auto& [id, time] : dut.delivered) last = std::max(last, time);
  CHECK(last == latency + Time{100'000} * 2 * kMessages);
  for (int i = 0; i < kMessages; ++i) {  // both streams advance together
    const auto first = dut.delivered.at(static_cast<std::uint64_t>(i * 2));
    const auto second = dut.delivered.at(static_cast<std::uint64_t>(i * 2 + 1));
    CHECK(second - first == Time{100'000});
  }
}

TEST_CASE("links are full duplex", "[fabric][timing]") {
  FabricUnderTest dut(test::round_topology());
  const Time alone = dut.time_of(tcm(0, 0, 0), tcm(1, 0, 0), 1000);
  const Time start = dut.engine.now();
  dut.send(tcm(0, 0, 0), tcm(1, 0, 0), 1000, 1);
  dut.send(tcm(1, 0, 0), tcm(0, 0, 0), 1000, 2);
  dut.engine.run();
  CHECK(dut.delivered.at(1) - start == alone);
  CHECK(dut.delivered.at(2) - start == alone);
}

TEST_CASE("a model without overheads is reduced to the link that is studied", "[fabric][timing]") {
  Topology topology = test::free_topology();
  topology.system.sip_link = {Bandwidth{50'000'000'000}, Time{500'000}};
  FabricUnderTest dut(topology);
  CHECK(dut.time_of(tcm(0, 0, 0), tcm(1, 0, 0), 1 << 20) ==
        Time{500'000} + transfer_time(1 << 20, Bandwidth{50'000'000'000}));
  CHECK(dut.time_of(tcm(0, 0, 0), tcm(0, 0, 0), 1 << 20) == Time{0});
}

TEST_CASE("a path goes x first, out by the IO edge, and in by the row of its target", "[routing]") {
  const Routing routing(test::round_topology(SipTopology::ring_1d, 4, 1, 3, 2));
  CHECK(names(routing, routing.route(tcm(0, 5, 0), tcm(0, 1, 1))) ==
        std::vector<std::string>{"sip0.cube5.pe0.tcm.read", "sip0.cube5.pe0.noc.out",
                                 "sip0.cube5.ucie.west", "sip0.cube4.ucie.north",
                                 "sip0.cube1.pe1.noc.in", "sip0.cube1.pe1.tcm.write"});
  CHECK(names(routing, routing.route(tcm(0, 4, 0), {Endpoint::Kind::hbm, {3, 4, 0}})) ==
        std::vector<std::string>{"sip0.cube4.pe0.tcm.read", "sip0.cube4.pe0.noc.out",
                                 "sip0.cube4.ucie.west", "sip0.cube3.ucie.to_io", "sip0.link.west",
                                 "sip3.cube3.ucie.from_io", "sip3.cube3.ucie.east",
                                 "sip3.cube4.hbm0"});
  CHECK(names(routing, routing.route({Endpoint::Kind::host, {1, 0, 0}},
                                     {Endpoint::Kind::io_cpu, {1, 0, 0}})) ==
        std::vector<std::string>{"sip1.host.down"});
}

// 2 corners of 2 PEs; a corner's way to the rest of the cube takes 3 ns and moves 10 GB/s.
Topology corner_topology() {
  Topology topology = test::round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
  topology.cube.corners = {"NW", "SE"};
  topology.cube.hbm.channels = 4;
  topology.cube.corner = {Bandwidth{10'000'000'000}, Time{3'000}};
  return topology;
}

TEST_CASE("what leaves a corner takes the corner's way, PEs and slices of one corner do not",
          "[routing]") {
  const Routing routing(corner_topology());
  const auto way = [&](const Endpoint& from, const Endpoint& to) {
    return names(routing, routing.route(from, to));
  };
  const auto hbm = [](int cube, int pe) { return Endpoint{Endpoint::Kind::hbm, {0, cube, pe}}; };
  CHECK(way(hbm(0, 1), tcm(0, 0, 0)) == std::vector<std::string>{"sip0.cube0.hbm1",
                                                                 "sip0.cube0.pe0.noc.in",
                                                                 "sip0.cube0.pe0.tcm.write"});
  CHECK(way(tcm(0, 0, 1), hbm(0, 2)) ==
        std::vector<std::string>{"sip0.cube0.pe1.tcm.read", "sip0.cube0.pe1.noc.out",
                                 "sip0.cube0.NW.out", "sip0.cube0.SE.in", "sip0.cube0.hbm2"});
  CHECK(way(tcm(0, 0, 1), tcm(0, 1, 1)) ==
        std::vector<std::string>{"sip0.cube0.pe1.tcm.read", "sip0.cube0.pe1.noc.out",
                                 "sip0.cube0.NW.out", "sip0.cube0.ucie.east", "sip0.cube1.NW.in",
                                 "sip0.cube1.pe1.noc.in", "sip0.cube1.pe1.tcm.write"});
  CHECK(way({Endpoint::Kind::sram, {0, 0, 0}}, tcm(0, 0, 3)) ==
        std::vector<std::string>{"sip0.cube0.sram", "sip0.cube0.SE.in", "sip0.cube0.pe3.noc.in",
                                 "sip0.cube0.pe3.tcm.write"});
  CHECK(way({Endpoint::Kind::host, {0, 0, 0}}, hbm(0, 3)) ==
        std::vector<std::string>{"sip0.host.down", "sip0.cube0.ucie.from_io", "sip0.cube0.SE.in",
                                 "sip0.cube0.hbm3"});
  CHECK(routing.find_class(routing.route(tcm(0, 0, 1), hbm(0, 2)).links.at(2)) == UnitClass::noc);
}

TEST_CASE("PEs of a corner meet on its way, those of two corners do not", "[fabric][timing]") {
  FabricUnderTest dut(corner_topology());
  // To other corners' ports, so that nothing else is shared: 1000 B are 100 ns on a corner's way.
  const auto time_of = [&](int one, int other) {
    const Time start = dut.engine.now();
    dut.send(tcm(0, 0, one), tcm(0, 1, 0), 1000, 1);
    dut.send(tcm(0, 0, other), tcm(0, 1, 2), 1000, 2);
    dut.engine.run();
    return std::max(dut.delivered.at(1), dut.delivered.at(2)) - start;
  };
  const Time alone{1000 * (1 + 2 + 3 + 5 + 3 + 2 + 1 + 100)};
  CHECK(time_of(0, 2) == alone + Time{10'000});  // on UCIe, 100 GB/s
  CHECK(time_of(0, 1) == alone + Time{100'000});
}

TEST_CASE("a write to HBM takes the time of a turn besides its bytes, a read does not",
          "[fabric][timing]") {
  Topology topology = test::round_topology();
  topology.cube.hbm.turn_around = Time{24'000};
  topology.cube.noc.bandwidth = topology.pe.tcm.bandwidth = Bandwidth::unlimited();
  const Endpoint hbm{Endpoint::Kind::hbm, {0, 0, 0}};
  const auto time_of = [&](bool is_write, int count, Bytes bytes) {
    FabricUnderTest dut(topology);
    for (int i = 0; i < count; ++i) {
      is_write ? dut.send(tcm(0, 0, 0), hbm, bytes) : dut.send(hbm, tcm(0, 0, 0), bytes);
    }
    dut.engine.run();
    return dut.engine.now();
  };
  const Routing routing(topology);
  const Path write = routing.route(tcm(0, 0, 0), hbm);
  const Time bytes_on_port = transfer_time(8000, Routing::hbm_slice(topology).bandwidth);
  CHECK(write.time_of(8000) == write.latency + bytes_on_port + Time{24'000});
  CHECK(time_of(true, 1, 8000) == write.time_of(8000));
  CHECK(time_of(true, 3, 8000) == write.latency + 3 * (bytes_on_port + Time{24'000}));
  CHECK(time_of(true, 1, 0) == write.latency + Time{24'000});
  CHECK(time_of(false, 3, 8000) == write.latency + 3 * bytes_on_port);
  topology.cube.hbm.bandwidth = Bandwidth::unlimited();
  topology.cube.hbm.latency = Time{0};
  const Time others = time_of(false, 2, 0);
  CHECK(time_of(true, 2, 0) == others + 2 * Time{24'000});
}

TEST_CASE("two SIPs in a dimension are joined by one pair of links", "[routing]") {
  const Routing routing(test::round_topology(SipTopology::torus_2d, 2, 3));
  const auto link_of = [&](int from, int to) {
    const Path path =
        routing.route({Endpoint::Kind::io_cpu, {from, 0, 0}}, {Endpoint::Kind::io_cpu, {to, 0, 0}});
    return names(routing, path);
  };
  CHECK(link_of(0, 1) == std::vector<std::string>{"sip0.link.east"});
  CHECK(link_of(1, 0) == std::vector<std::string>{"sip1.link.west"});
  CHECK(link_of(0, 4) == std::vector<std::string>{"sip0.link.north"});  // one step back, not two on
}

TEST_CASE("every route ends within the diameter and visits no link twice", "[routing]") {
  const auto kind =
      GENERATE(SipTopology::ring_1d, SipTopology::torus_2d, SipTopology::mesh_2d_no_wrap);
  const int w = GENERATE(1, 2, 5);
  const int h = kind == SipTopology::ring_1d ? 1 : GENERATE(1, 2, 4);
  const Routing routing(test::round_topology(kind, w, h));
  const int across = kind == SipTopology::mesh_2d_no_wrap ? (w - 1) + (h - 1) : w / 2 + h / 2;
  for (int from = 0; from < w * h; ++from) {
    for (int to = 0; to < w * h; ++to) {
      Path path = routing.route({Endpoint::Kind::io_cpu, {from, 0, 0}},
                                {Endpoint::Kind::io_cpu, {to, 0, 0}});
      CHECK(static_cast<int>(path.links.size()) <= across);
      CHECK(path.links.empty() == (from == to));
      std::ranges::sort(path.links);
      CHECK(std::ranges::adjacent_find(path.links) == path.links.end());
    }
  }
}

TEST_CASE("locations print and parse", "[location]") {
  CHECK(parse_pe_location("sip1.cube12.pe3") == PeLocation{1, 12, 3});
  CHECK(to_string(PeLocation{1, 12, 3}) == "sip1.cube12.pe3");
  for (const char* wrong :
       {"", "sip1", "sip1.cube0", "sip1.cube0.pe", "sip1.cube0.pe1x", "sip-1.cube0.pe0",
        "sip-0.cube0.pe0", "cube0.pe0", "sip99999999999.cube0.pe0"}) {
    CHECK_FALSE(parse_pe_location(wrong).has_value());
  }
}

}  // namespace kernbench::sim::fabric_test
