// The links that the page draws are those that the machine has.

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "benches/page/link_drawing.h"
#include "sim_engine/components/routing.h"
#include "test/support/small_topology.h"

namespace kernbench::test::page_links_test {
namespace {

using benches::page::LinkUse;

struct Network {
  SipTopology kind;
  int w = 1;
  int h = 1;
  int d = 1;
};

// Its switch costs time, and so is on the way of a message.
Topology topology_of(const Network& network) {
  Topology topology = network.kind == SipTopology::torus_3d
                          ? joined_topology(network.kind, network.w, network.h, network.d)
                          : link_topology(network.kind, network.w, network.h);
  topology.system.network_switch.core.latency = Time{100'000};
  return topology;
}

// The links between SIPs that some message takes.
std::set<std::string> links_taken(const Topology& topology) {
  const sim::Routing routing(topology);
  std::set<std::string> names;
  for (int from = 0; from < topology.system.sip_count; ++from) {
    for (int to = 0; to < topology.system.sip_count; ++to) {
      if (from == to) continue;
      const auto kind = sim::Endpoint::Kind::tcm;
      for (const sim::LinkId link : routing.route({kind, {from, 0, 0}}, {kind, {to, 0, 0}}).links) {
        if (routing.find_class(link) == sim::UnitClass::link) names.insert(routing.name(link));
      }
    }
  }
  return names;
}

std::set<std::string> links_drawn(const Topology& topology) {
  std::set<std::string> names;
  const auto drawing = benches::page::draw_sip_links(topology, [&](const std::string& name) {
    names.insert(name);
    return LinkUse{name, 0.5, 64};
  });
  REQUIRE(drawing.has_value());
  for (const std::string& name : names) {
    CHECK(drawing->find("<title>" + name + ": 50.0 %, 64 B</title>") != std::string::npos);
  }
  return names;
}

TEST_CASE("every network is drawn with its own links", "[page]") {
  const Network network =
      GENERATE(Network{SipTopology::ring_1d, 2}, Network{SipTopology::ring_1d, 6},
               Network{SipTopology::torus_2d, 3, 2}, Network{SipTopology::mesh_2d_no_wrap, 3, 3},
               Network{SipTopology::torus_3d, 3, 2, 2}, Network{SipTopology::torus_3d, 3, 3, 3},
               Network{SipTopology::full_mesh, 2}, Network{SipTopology::full_mesh, 8},
               Network{SipTopology::switched, 8});
  CAPTURE(network.kind, network.w, network.h, network.d);
  const Topology topology = topology_of(network);
  CHECK(links_drawn(topology) == links_taken(topology));
}

TEST_CASE("nodes are drawn with the links between them", "[page]") {
  const SipTopology within = GENERATE(SipTopology::switched, SipTopology::full_mesh);
  Topology topology = in_nodes(joined_topology(within, 12), 4);
  topology.system.nodes.sips_per_link = GENERATE(1, 2);
  topology.system.network_switch.core.latency = Time{100'000};
  CHECK(links_drawn(topology) == links_taken(topology));
}

// Names of a drawing's boxes, and where they stand.
std::multiset<std::string> places_of(const std::string& svg) {
  std::multiset<std::string> places;
  for (std::size_t at = svg.find(">SIP "); at != svg.npos; at = svg.find(">SIP ", at + 1)) {
    const std::size_t begin = svg.rfind('<', at);
    places.insert(svg.substr(begin, at - begin));
  }
  return places;
}

TEST_CASE("no SIP stands where another one stands", "[page]") {
  const Network network =
      GENERATE(Network{SipTopology::torus_3d, 3, 2, 2}, Network{SipTopology::switched, 8},
               Network{SipTopology::full_mesh, 16});
  const Topology topology = topology_of(network);
  const auto drawing = benches::page::draw_sip_links(
      topology, [](const std::string& name) { return LinkUse{name}; });
  const std::multiset<std::string> places = places_of(drawing.value());
  CHECK(static_cast<int>(places.size()) == topology.system.sip_count);
  CHECK(std::set(places.begin(), places.end()).size() == places.size());
}

TEST_CASE("a network with more links than can be seen is not drawn", "[page]") {
  const auto find = [](const std::string& name) { return LinkUse{name}; };
  CHECK(!benches::page::draw_sip_links(topology_of({SipTopology::full_mesh, 17}), find));
  CHECK(!benches::page::draw_sip_links(topology_of({SipTopology::ring_1d, 65}), find));
}

}  // namespace
}  // namespace kernbench::test::page_links_test
