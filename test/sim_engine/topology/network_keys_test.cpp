// The keys of a topology file that say how SIPs are joined, beyond rings and grids in a plane.

#include <catch2/catch.hpp>

#include "sim_engine/topology/sip_network.h"
#include "sim_engine/topology/topology.h"
#include "test/sim_engine/topology/topology_text.h"
#include "test/support/error_text.h"
#include "test/support/small_topology.h"

namespace kernbench::test::network_keys_test {
namespace {

std::string replaced(std::string text, const std::string& old, const std::string& by) {
  const std::size_t begin = text.find(old);
  REQUIRE(begin != std::string::npos);
  return text.replace(begin, old.size(), by);
}

const std::string kSips = "{count: 6, w: 3, h: 2, topology: torus_2d}";

std::string with_sips(const std::string& sips, const std::string& more = "") {
  return replaced(complete_topology(), kSips, sips + more);
}

constexpr std::int64_t kGBs = 1'000'000'000;

TEST_CASE("a switch has a latency, and may have a bandwidth and sums", "[topology][network]") {
  const std::string sips = "{count: 6, topology: switch}\n  switch: ";
  const Topology plain = Topology::parse(with_sips(sips + "{latency: 7 ns}"), "t");
  CHECK(plain.system.topology == SipTopology::switched);
  CHECK(plain.system.w == 6);
  CHECK(plain.system.network_switch.core == LinkSpec{Bandwidth::unlimited(), Time{7'000}});
  CHECK_FALSE(plain.system.network_switch.sums);
  const Topology full =
      Topology::parse(with_sips(sips + "{latency: 7 ns, bandwidth: 9 GB/s, sums: {bandwidth: 3 "
                                       "GB/s, latency: 2 ns}}"),
                      "t");
  CHECK(full.system.network_switch.core == LinkSpec{Bandwidth{9 * kGBs}, Time{7'000}});
  CHECK(full.system.network_switch.sums == LinkSpec{Bandwidth{3 * kGBs}, Time{2'000}});
}

TEST_CASE("a 3-D torus has w, h and d; links may be several; an IO chiplet may cost a hop",
          "[topology][network]") {
  const std::string text =
      replaced(replaced(with_sips("{count: 12, w: 2, h: 3, d: 2, topology: torus_3d}"),
                        "sip_link:  {", "sip_link:  {count: 4, "),
               "dispatch: 20 ns}", "dispatch: 20 ns, latency: 11 ns, bandwidth: 100 GB/s}");
  const Topology topology = Topology::parse(text, "t");
  CHECK(topology.system.d == 2);
  CHECK(topology.system.links_per_pair == 4);
  CHECK(topology.sip.io_hop == LinkSpec{Bandwidth{100 * kGBs}, Time{11'000}});
}

TEST_CASE("nodes have SIPs of their own, and links between them", "[topology][network]") {
  const std::string text = with_sips(
      "{count: 12, topology: switch}\n  switch: {latency: 7 ns}\n  nodes: {count: 3, "
      "sips_per_link: "
      "2, link: {bandwidth: 5 GB/s, latency: 2 us}}");
  const Topology topology = Topology::parse(text, "t");
  CHECK(topology.system.w == 4);
  CHECK(topology.system.h == 3);
  CHECK(topology.system.nodes == NodesSpec{{3, {Bandwidth{5 * kGBs}, Time{2'000'000}}, 2}, {}});
  const sim::SipNetwork network(topology);
  CHECK(network.node_of(3) == 0);
  CHECK(network.node_of(4) == 1);
  CHECK(network.hops(3, 4) == 1);
  CHECK(network.latency(3, 4) == Time{4'000'000});
  CHECK(network.latency(4, 7) == 2 * topology.system.sip_link.latency + Time{7'000});
  // SIPs 2 and 3 share a link, which is that of SIP 2.
  const auto way = network.way(3, 4);
  REQUIRE(way.size() == 2);
  CHECK(way[0].sip == 2);
  CHECK(network.name_of_link(way[0].number) == "to_nodes");
  CHECK(way[1].sip == 4);
  CHECK(network.name_of_link(way[1].number) == "from_nodes");
  CHECK(network.link_count() == 12);
  CHECK(network.node_link_count(1) == 6);
  CHECK(network.rate_across() == Bandwidth{2 * 5 * kGBs});
  CHECK(network.diameter() == Time{4'000'000});
}

TEST_CASE("nodes may have nodes inside, with links of their own", "[topology][network]") {
  const std::string levels =
      "\n  nodes: {count: 2, link: {bandwidth: 5 GB/s, latency: 2 us}, sips_per_link: 8, "
      "through_inner: THROUGH, nodes: {count: 2, link: {bandwidth: 9 GB/s, latency: 300 ns}}}";
  const auto with_levels = [&](const std::string& through) {
    return with_sips("{count: 16, topology: switch}\n  switch: {latency: 7 ns}",
                     replaced(levels, "THROUGH", through));
  };
  const Topology apart = Topology::parse(with_levels("false"), "t");
  const NodeLevel boards{2, {Bandwidth{9 * kGBs}, Time{300'000}}};
  CHECK(apart.system.nodes.inner == std::vector<NodeLevel>{boards});
  const sim::SipNetwork network(apart);
  CHECK(network.level_count() == 2);
  CHECK(network.sips_in_node(1) == 4);
  CHECK(network.level_between(0, 3) == 0);
  CHECK(network.level_between(0, 4) == 1);
  CHECK(network.level_between(4, 8) == 2);
  CHECK(network.latency(0, 4) == Time{600'000});
  CHECK(network.latency(0, 8) == Time{4'000'000});
  CHECK(network.name_of_link(network.way(0, 4).front().number) == "to_nodes.nodes");
  CHECK(network.name_of_link(network.way(0, 8).front().number) == "to_nodes");
  CHECK(network.rate_between_nodes(1) == Bandwidth{(16 * 9 + 2 * 5) * kGBs});
  CHECK(network.place_seen_from(4, 8) == 12);  // a board behind, round its end, and a node ahead

  const sim::SipNetwork through(Topology::parse(with_levels("true"), "t"));
  CHECK(through.latency(0, 8) == Time{4'600'000});
  CHECK(through.way(1, 9).size() == 4);
  CHECK(through.way(1, 9)[1].sip == 0);
  CHECK(through.rate_between_nodes(1) == Bandwidth{16 * 9 * kGBs});
}

TEST_CASE("SIPs of a node may have a grid", "[topology][network]") {
  const std::string nodes = "\n  nodes: {count: 2, link: {bandwidth: 5 GB/s, latency: 2 us}}";
  const Topology topology =
      Topology::parse(with_sips("{count: 12, w: 3, h: 2, topology: torus_2d}", nodes), "t");
  const sim::SipNetwork network(topology);
  CHECK(network.way(6, 8).size() == 1);  // round the row
  CHECK(network.way(7, 11).size() == 2);
  CHECK(network.level_between(0, 6) == 1);
  CHECK(network.way(5, 6).size() == 2);
  CHECK_THAT(topology_error_of(with_sips("{count: 12, w: 4, h: 2, topology: torus_2d}", nodes)),
             Catch::Contains("w*h*nodes = 4*2*2 = 16 but count = 12"));
}

TEST_CASE("what does not fit together is refused with its place", "[topology][errors][network]") {
  using Catch::Contains;
  CHECK_THAT(topology_error_of(with_sips("{count: 12, w: 2, h: 3, d: 3, topology: torus_3d}")),
             Contains(":9: [KB-Y030]") && Contains("2*3*3 = 18 but count = 12"));
  CHECK_THAT(topology_error_of(with_sips("{count: 6, w: 3, h: 2, topology: torus_3d}")),
             Contains("[KB-Y016]") && Contains("'d'"));
  CHECK_THAT(topology_error_of(with_sips("{count: 6, topology: switch}")),
             Contains("[KB-Y016]") && Contains("switch"));
  CHECK_THAT(topology_error_of(with_sips(kSips, "\n  switch: {latency: 1 ns}")),
             Contains("[KB-Y038]") && Contains("torus_2d"));
  CHECK_THAT(topology_error_of(with_sips("{count: 65, topology: full_mesh}")),
             Contains("[KB-Y039]") && Contains("at most 64 SIPs, not 65"));
  CHECK_THAT(
      topology_error_of(replaced(complete_topology(), "sip_link:  {", "sip_link:  {count: 0, ")),
      Contains("[KB-Y020]") && Contains("count"));
  const std::string nodes = "\n  nodes: {link: {bandwidth: 5 GB/s, latency: 2 us}, ";
  const std::string joined = "{count: 6, topology: switch}\n  switch: {latency: 7 ns}";
  CHECK_THAT(topology_error_of(with_sips(joined, nodes + "count: 4}")),
             Contains("[KB-Y030]") && Contains("6 SIPs are no equal nodes"));
  CHECK_THAT(topology_error_of(with_sips(joined, nodes + "count: 2, sips_per_link: 2}")),
             Contains("[KB-Y030]") && Contains("the 3 SIPs of a node"));
  CHECK_THAT(topology_error_of(with_sips(kSips, nodes + "count: 3, through_inner: true}")),
             Contains("[KB-Y038]") && Contains("torus_2d"));
  const std::string inner = "count: 2, nodes: {count: 2, link: {bandwidth: 5 GB/s, latency: 2 us}}";
  CHECK_THAT(topology_error_of(with_sips(joined, nodes + inner + "}")),
             Contains("[KB-Y030]") && Contains("nodes.nodes") && Contains("3 SIPs are no equal"));
  CHECK_THAT(topology_error_of(with_sips(joined, nodes + "count: 2, racks: {}}")),
             Contains("[KB-Y010]") && Contains("racks"));
  Topology by_hand = in_nodes(joined_topology(SipTopology::switched, 6), 3);
  by_hand.check();
  by_hand.system.h = 1;
  CHECK_THROWS_WITH(by_hand.check(), Contains("KB-Y037") && Contains("system.nodes"));
}

TEST_CASE("links may be unlike the others, by dimension, pair or SIP", "[topology][network]") {
  const std::string links = "\n  sip_links:\n    ";
  const std::string slow = ": {bandwidth: 9 GB/s, latency: 7 ns}";
  const LinkSpec spec{Bandwidth{9 * kGBs}, Time{7'000}};
  const Topology torus = Topology::parse(with_sips(kSips, links + "y" + slow), "t");
  CHECK(torus.system.unlike_links ==
        std::vector<UnlikeLinks>{{UnlikeLinks::Of::dimension, 1, 0, spec}});
  const sim::SipNetwork network(torus);
  CHECK(network.spec({4, static_cast<int>(sim::Compass::north)}) == spec);
  CHECK(network.spec({4, static_cast<int>(sim::Compass::east)}) == torus.system.sip_link);
  // The later entry counts: SIPs 0 and 1 have the link that a pair has.
  const Topology pair = Topology::parse(
      with_sips(kSips, links + "sip0: {bandwidth: 1 GB/s, latency: 1 ns}\n    sip0-sip1" + slow),
      "t");
  const sim::SipNetwork joined(pair);
  CHECK(joined.spec({0, static_cast<int>(sim::Compass::east)}) == spec);
  CHECK(joined.spec({1, static_cast<int>(sim::Compass::west)}) == spec);
  CHECK(joined.spec({3, static_cast<int>(sim::Compass::north)}).latency == Time{1'000});
  CHECK(joined.spec({1, static_cast<int>(sim::Compass::east)}) == pair.system.sip_link);
  CHECK(joined.find_unlike({1, static_cast<int>(sim::Compass::east)}) == nullptr);
}

TEST_CASE("links that a machine does not have are refused", "[topology][network][errors]") {
  using Catch::Matchers::Contains;
  const auto error_of = [](const std::string& sips, const std::string& name) {
    return topology_error_of(
        with_sips(sips, "\n  sip_links:\n    " + name + ": {bandwidth: 9 GB/s, latency: 7 ns}"));
  };
  CHECK_THAT(error_of(kSips, "w"),
             Contains("[KB-Y020]") && Contains("system.sip_links.w") && Contains("sip0-sip1"));
  for (const char* name : {"sip1-", "sip1-sip0", "sip01", "sip-1", "sip0-sip1-sip2"}) {
    CHECK_THAT(error_of(kSips, name), Contains("[KB-Y020]"));
  }
  CHECK_THAT(error_of(kSips, "z"), Contains("[KB-Y038]") && Contains("this dimension of torus_2d"));
  CHECK_THAT(error_of(kSips, "sip6"), Contains("[KB-Y038]") && Contains("there are 6"));
  CHECK_THAT(error_of(kSips, "sip0-sip4"), Contains("[KB-Y038]") && Contains("no neighbours"));
  CHECK_THAT(error_of(kSips, "sip2-sip2"), Contains("[KB-Y038]") && Contains("no neighbours"));
  CHECK_THAT(error_of("{count: 6, topology: full_mesh}", "x"),
             Contains("[KB-Y038]") && Contains("full_mesh has no dimensions"));
  CHECK_THAT(error_of("{count: 6, topology: switch}\n  switch: {latency: 7 ns}", "sip0-sip1"),
             Contains("[KB-Y038]") && Contains("joins no two SIPs directly"));
  CHECK_THAT(error_of("{count: 6, topology: full_mesh}\n  nodes: {count: 2, link: {bandwidth: 9 "
                      "GB/s, latency: 7 ns}}",
                      "sip2-sip3"),
             Contains("[KB-Y038]") && Contains("full_mesh of a node"));
  Topology by_hand = joined_topology(SipTopology::full_mesh, 4);
  by_hand.system.unlike_links = {{UnlikeLinks::Of::sip, 4, 0, {}}};
  CHECK_THROWS_WITH(by_hand.check(), Contains("KB-Y037") && Contains("system.sip_links.sip4"));
}

TEST_CASE("rates and latencies of a network with unlike links", "[topology][network]") {
  constexpr auto kDimension = UnlikeLinks::Of::dimension;
  Topology topology = joined_topology(SipTopology::torus_3d, 4, 3, 2);  // 50 GB/s, 500 ns
  topology.system.unlike_links = {{kDimension, 2, 0, {Bandwidth{5 * kGBs}, Time{2'000'000}}}};
  const sim::SipNetwork torus(topology);
  CHECK(torus.rate_across() == Bandwidth{12 * 5 * kGBs});     // z: 4 x 3 links
  CHECK(torus.rate_of(0) == Bandwidth{(4 * 50 + 5) * kGBs});  // one link along z
  CHECK(torus.rate() == Bandwidth{24 * (4 * 50 + 5) * kGBs});
  CHECK(torus.latency(0, 23) == 2 * Time{500'000} + Time{2'000'000});
  CHECK(torus.extra_latency(0, 23) == Time{1'500'000});
  CHECK(torus.diameter() == 3 * Time{500'000} + Time{2'000'000});
  CHECK(torus.to_neighbour() == Time{500'000});
  // A ring is cut at its two slowest borders.
  topology = link_topology(SipTopology::ring_1d, 5);
  topology.system.unlike_links = {
      {UnlikeLinks::Of::pair, 0, 4, {Bandwidth{2 * kGBs}, Time{100'000}}},
      {UnlikeLinks::Of::pair, 1, 2, {Bandwidth{3 * kGBs}, Time{500'000}}}};
  const sim::SipNetwork ring(topology);
  CHECK(ring.rate_across() == Bandwidth{5 * kGBs});
  CHECK(ring.fastest() == Bandwidth{50 * kGBs});
  CHECK(ring.slowest(0) == Bandwidth{2 * kGBs});
  CHECK(ring.to_neighbour() == Time{100'000});
}

TEST_CASE("links, degrees, cuts and latencies of each network", "[topology][network]") {
  const auto network = [](SipTopology kind, int w, int h = 1, int d = 1) {
    return sim::SipNetwork(joined_topology(kind, w, h, d));
  };
  const auto mesh = network(SipTopology::full_mesh, 5);
  CHECK(mesh.link_count() == 20);
  CHECK(mesh.degree(3) == 4);
  CHECK(mesh.rate_across() == mesh.rate_of(3));  // four links
  CHECK(mesh.diameter() == Time{500'000});
  CHECK(mesh.hops(0, 4) == 1);
  const auto star = network(SipTopology::switched, 5);
  CHECK(star.link_count() == 5);
  CHECK(star.way(1, 4).size() == 2);
  CHECK(star.hops(1, 4) == 1);
  CHECK(star.latency(1, 4) == Time{1'000'000});
  const auto torus = network(SipTopology::torus_3d, 4, 3, 2);
  CHECK(torus.link_count() == 24 * 5);  // two ways in x and y, one in z
  CHECK(torus.rate_across(2, 0).per_second == 12 * torus.fastest().per_second);  // z: 4 x 3 links
  CHECK(torus.rate_across() == torus.rate_across(2, 0));
  CHECK(torus.diameter() == (2 + 1 + 1) * Time{500'000});
  CHECK(torus.hops(0, 23) == 1 + 1 + 1);
}

}  // namespace
}  // namespace kernbench::test::network_keys_test
