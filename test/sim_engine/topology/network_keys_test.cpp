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
  CHECK(topology.system.nodes == NodesSpec{3, {Bandwidth{5 * kGBs}, Time{2'000'000}}, 2});
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
  CHECK(network.node_link_count() == 6);
  CHECK(network.rate_across() == Bandwidth{2 * 5 * kGBs});
  CHECK(network.diameter() == Time{4'000'000});
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
  CHECK_THAT(topology_error_of(with_sips(kSips, nodes + "count: 2}")),
             Contains("[KB-Y038]") && Contains("torus_2d"));
  Topology by_hand = in_nodes(joined_topology(SipTopology::switched, 6), 3);
  by_hand.check();
  by_hand.system.h = 1;
  CHECK_THROWS_WITH(by_hand.check(), Contains("KB-Y037") && Contains("system.nodes"));
}

TEST_CASE("links, degrees, cuts and latencies of each network", "[topology][network]") {
  const auto network = [](SipTopology kind, int w, int h = 1, int d = 1) {
    return sim::SipNetwork(joined_topology(kind, w, h, d));
  };
  const auto mesh = network(SipTopology::full_mesh, 5);
  CHECK(mesh.link_count() == 20);
  CHECK(mesh.degree(3) == 4);
  CHECK(mesh.cut_width() == 4);
  CHECK(mesh.diameter() == Time{500'000});
  CHECK(mesh.hops(0, 4) == 1);
  const auto star = network(SipTopology::switched, 5);
  CHECK(star.link_count() == 5);
  CHECK(star.way(1, 4).size() == 2);
  CHECK(star.hops(1, 4) == 1);
  CHECK(star.latency(1, 4) == Time{1'000'000});
  const auto torus = network(SipTopology::torus_3d, 4, 3, 2);
  CHECK(torus.link_count() == 24 * 5);  // two ways in x and y, one in z
  CHECK(torus.cut_width() == 12);       // z: 4 x 3 links
  CHECK(torus.diameter() == (2 + 1 + 1) * Time{500'000});
  CHECK(torus.hops(0, 23) == 1 + 1 + 1);
}

}  // namespace
}  // namespace kernbench::test::network_keys_test
