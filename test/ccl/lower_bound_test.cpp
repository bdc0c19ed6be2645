// Bounds by hand (TIMING 3.1), for a latency alpha of 500 ns and 20 ps per byte: n = 1 MiB takes
// n beta = 20 971 520 ps on one link.

#include "ccl/core/lower_bound.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <random>

#include "test/ccl/all_reduce_under_test.h"
#include "test/support/small_topology.h"

namespace kernbench::test::lower_bound_test {
namespace {

constexpr Bytes kMiB = 1 << 20;
constexpr Time kAlpha{500'000};

Time bound(SipTopology kind, int w, int h, Bytes bytes) {
  return ccl::all_reduce_lower_bound(link_topology(kind, w, h), bytes);
}
int links(SipTopology kind, int w, int h) {
  return ccl::directed_link_count(link_topology(kind, w, h));
}

TEST_CASE("directed links: two per pair of neighbours, also where a dimension of two wraps",
          "[ccl][bound]") {
  CHECK(links(SipTopology::ring_1d, 1, 1) == 0);
  CHECK(links(SipTopology::ring_1d, 2, 1) == 2);
  CHECK(links(SipTopology::ring_1d, 3, 1) == 6);
  CHECK(links(SipTopology::ring_1d, 8, 1) == 16);
  CHECK(links(SipTopology::torus_2d, 4, 4) == 64);
  CHECK(links(SipTopology::torus_2d, 2, 2) == 8);
  CHECK(links(SipTopology::torus_2d, 3, 2) == 18);
  CHECK(links(SipTopology::torus_2d, 2, 3) == 18);
  CHECK(links(SipTopology::torus_2d, 1, 5) == 10);
  CHECK(links(SipTopology::mesh_2d_no_wrap, 4, 4) == 48);
  CHECK(links(SipTopology::mesh_2d_no_wrap, 3, 2) == 14);
  CHECK(links(SipTopology::mesh_2d_no_wrap, 1, 5) == 8);
}

TEST_CASE("a ring of 8 must move 7/8 n over each link", "[ccl][bound]") {
  CHECK(bound(SipTopology::ring_1d, 8, 1, kMiB) == kAlpha + Time{18'350'080});
}

TEST_CASE("two SIPs must exchange everything over one link each way", "[ccl][bound]") {
  CHECK(bound(SipTopology::ring_1d, 2, 1, kMiB) == kAlpha + Time{20'971'520});
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 1, 2, kMiB) == kAlpha + Time{20'971'520});
}

TEST_CASE("a line must let everything through each of its links", "[ccl][bound]") {
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 4, 1, kMiB) == kAlpha + Time{20'971'520});
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 1, 7, kMiB) == kAlpha + Time{20'971'520});
}

TEST_CASE("4 x 4: a torus must move 15/32 n over each link, a mesh 30/48 n", "[ccl][bound]") {
  CHECK(bound(SipTopology::torus_2d, 4, 4, kMiB) == kAlpha + Time{9'830'400});
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 4, 4, kMiB) == kAlpha + Time{13'107'200});
}

TEST_CASE("n must pass the slowest cut, and the links of each SIP", "[ccl][bound]") {
  // Links of 50 GB/s, of which some have a quarter.
  const LinkSpec slow{Bandwidth{12'500'000'000}, kAlpha};
  Topology line = link_topology(SipTopology::mesh_2d_no_wrap, 4, 1);
  line.system.unlike_links = {{UnlikeLinks::Of::pair, 1, 2, slow}};
  CHECK(ccl::all_reduce_lower_bound(line, kMiB) == kAlpha + 4 * Time{20'971'520});
  Topology mesh = link_topology(SipTopology::mesh_2d_no_wrap, 3, 3);
  mesh.system.unlike_links = {{UnlikeLinks::Of::sip, 0, 0, slow}};  // a corner, with two links
  CHECK(ccl::all_reduce_lower_bound(mesh, kMiB) == kAlpha + 4 * Time{20'971'520 / 2});
}

TEST_CASE("a dimension of two has one link each way, not two", "[ccl][bound]") {
  // 3 x 2: 18 links, 2 * 5/18 n beta = 11 650 844.4 ps, rounded down.
  CHECK(bound(SipTopology::torus_2d, 3, 2, kMiB) == kAlpha + Time{11'650'844});
  CHECK(bound(SipTopology::torus_2d, 2, 3, kMiB) == kAlpha + Time{11'650'844});
  CHECK(bound(SipTopology::torus_2d, 2, 2, kMiB) == kAlpha + Time{15'728'640});  // 6/8
}

TEST_CASE("between few bytes and many: the longer of the way and of the busiest link",
          "[ccl][bound]") {
  // A ring of 8: the way takes 4 alpha, 7/8 n beta and alpha are as long for n beta = 24/7 alpha.
  constexpr Bytes kEven = 24 * 500'000 / 7 / 20;
  CHECK(bound(SipTopology::ring_1d, 8, 1, kEven) == 4 * kAlpha);
  CHECK(bound(SipTopology::ring_1d, 8, 1, kEven + 8) == kAlpha + Time{(kEven + 8) * 20 * 7 / 8});
}

// Blocks of p members go p/4 SIPs on the average, so that each of 2 p links carries p^2/8 of them.
TEST_CASE("an all_to_all on a ring must move p^2/8 blocks over each link", "[ccl][bound]") {
  for (const int p : {4, 8, 16, 64}) {
    const Topology ring = link_topology(SipTopology::ring_1d, p);
    CAPTURE(p);
    CHECK(ccl::collective_lower_bound(ring, distributed::CollectiveKind::all_to_all, kMiB) ==
          kAlpha + p * p / 8 * Time{20'971'520});
  }
}

// Two nodes of 4.  Each SIP has a link of 10 GB/s and 1 us out of its node, and one into it: a byte
// takes 100 ps.
TEST_CASE("what one node needs of another must pass the links between them", "[ccl][bound]") {
  using enum distributed::CollectiveKind;
  const Topology nodes = in_nodes(joined_topology(SipTopology::full_mesh, 8), 4);
  const auto bound_of = [&](distributed::CollectiveKind kind) {
    return ccl::collective_lower_bound(nodes, kind, kMiB);
  };
  constexpr Time kOutAndIn{2'000'000};
  constexpr Time kBlock{100 * kMiB};
  CHECK(bound_of(all_gather) == kOutAndIn + 4 * kBlock / 4);
  CHECK(bound_of(reduce_scatter) == kOutAndIn + 4 * kBlock / 4);
  CHECK(bound_of(all_to_all) == kOutAndIn + 4 * 4 * kBlock / 4);
}

TEST_CASE("sums of nodes need not pass the core of one switch", "[ccl][bound]") {
  Topology nodes = in_nodes(joined_topology(SipTopology::switched, 8), 4);
  const Time bound = ccl::all_reduce_lower_bound(nodes, kMiB);
  nodes.system.network_switch.core.bandwidth = Bandwidth{10'000'000'000};
  CHECK(ccl::all_reduce_lower_bound(nodes, kMiB) == bound);
}

TEST_CASE("few bytes are bound by the diameter", "[ccl][bound]") {
  CHECK(bound(SipTopology::ring_1d, 8, 1, 1) == 4 * kAlpha);
  CHECK(bound(SipTopology::ring_1d, 7, 1, 1) == 3 * kAlpha);
  CHECK(bound(SipTopology::torus_2d, 5, 4, 1) == 4 * kAlpha);
  CHECK(bound(SipTopology::mesh_2d_no_wrap, 5, 4, 1) == 7 * kAlpha);
}

TEST_CASE("one SIP, or no bytes, have no bound", "[ccl][bound]") {
  CHECK(bound(SipTopology::torus_2d, 1, 1, kMiB) == Time{0});
  CHECK(bound(SipTopology::ring_1d, 8, 1, 0) == Time{0});
}

TEST_CASE("unlimited links are bound by their latency alone, and sizes of 2^60 do not overflow",
          "[ccl][bound]") {
  Topology topology = link_topology(SipTopology::ring_1d, 4, 1);
  topology.system.sip_link.bandwidth = Bandwidth::unlimited();
  CHECK(ccl::all_reduce_lower_bound(topology, Bytes{1} << 60) == Time{1'000'000});
  topology.system.sip_link = {Bandwidth{1'000'000'000'000'000}, Time{0}};  // a byte in 1/1000 ps
  CHECK(ccl::all_reduce_lower_bound(topology, Bytes{1} << 60) == Time{(Bytes{1} << 58) * 3 / 1000});
}

TEST_CASE("a PE that is a rank must send 2 (P - 1)/P n through its one port", "[ccl][bound]") {
  Topology topology = link_topology(SipTopology::ring_1d, 1);
  topology.cube.noc = {Bandwidth{50'000'000'000}, Time{25'000}};
  const auto pe_bound = [&](int ranks, Bytes bytes) {
    return ccl::pe_all_reduce_lower_bound(topology, ranks, bytes);
  };
  constexpr Time kWay{50'000};  // out of one port and into another
  CHECK(pe_bound(2, kMiB) == kWay + Time{20'971'520});
  CHECK(pe_bound(8, kMiB) == kWay + Time{36'700'160});
  CHECK(pe_bound(3, 10'000) == kWay + Time{266'666});
  CHECK(pe_bound(1, kMiB) == Time{0});
  CHECK(pe_bound(8, 0) == Time{0});
  topology.pe.tcm.bandwidth = Bandwidth{25'000'000'000};  // the slower port counts
  topology.pe.tcm.latency = Time{1'000};
  CHECK(pe_bound(2, kMiB) == Time{52'000 + 41'943'040});
  CHECK(pe_bound(2, 4) == Time{52'000 + 160});
}

TEST_CASE("no simulated time is under the bound", "[ccl][bound]") {
  std::mt19937 random(20'250'711);
  const auto pick = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int i = 0; i < 150; ++i) {
    const SipTopology kind = kGridTopologies[static_cast<std::size_t>(pick(0, 2))];
    const int w = pick(1, 4);
    const int h = pick(1, 3);
    Topology topology = i % 2 == 0 ? round_topology(kind, w, h, pick(1, 2), pick(1, 2))
                                   : link_topology(kind, kind == SipTopology::ring_1d ? w * h : w,
                                                   kind == SipTopology::ring_1d ? 1 : h);
    topology.system.sip_link = {Bandwidth{pick(1, 100) * 1'000'000'000LL}, Time{pick(0, 999'999)}};
    AllReduce all_reduce{.topology = topology, .summand = nullptr, .data = false};
    all_reduce.shape = {pick(1, 3), pick(0, 2) == 0 ? pick(0, 9) : pick(0, 30'000)};
    all_reduce.dtype = kDTypes[static_cast<std::size_t>(pick(0, 2))];
    all_reduce.dp.cube = static_cast<Shard>(pick(0, 3));
    all_reduce.dp.pe = static_cast<Shard>(pick(0, 3));
    all_reduce.config = ccl::Config::parse(
        fmt::format("defaults: {{depth: {}, slot: {} B}}", pick(1, 6), 4096 * pick(1, 4)));
    INFO(all_reduce.text());
    const Bytes bytes = all_reduce.shape.numel() * size_of(all_reduce.dtype);
    CHECK(run(all_reduce).took >= ccl::all_reduce_lower_bound(topology, bytes));
  }
}

}  // namespace
}  // namespace kernbench::test::lower_bound_test
