#include "sim_engine/topology/folding.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "sim_engine/topology/sip_network.h"
#include "test/support/small_topology.h"

namespace kernbench::sim::folding_test {
namespace {

using test::in_nodes;
using test::joined_topology;
using test::link_topology;

std::vector<int> firsts_of(const Topology& topology, int period) {
  const Folding folding(topology, period);
  std::vector<int> firsts;
  for (int sip = 0; sip < topology.system.sip_count; ++sip) firsts.push_back(folding.first_of(sip));
  return firsts;
}

TEST_CASE("a period says which SIPs stand for others", "[folding]") {
  using Firsts = std::vector<int>;
  CHECK(firsts_of(link_topology(SipTopology::ring_1d, 4), 0) == Firsts{0, 1, 2, 3});
  CHECK(firsts_of(link_topology(SipTopology::ring_1d, 4), 1) == Firsts{0, 0, 0, 0});
  CHECK(firsts_of(link_topology(SipTopology::ring_1d, 4), 2) == Firsts{0, 1, 0, 1});
  CHECK(firsts_of(link_topology(SipTopology::ring_1d, 3), 2) == Firsts{0, 1, 2});
  CHECK(firsts_of(link_topology(SipTopology::torus_2d, 4, 2), 1) ==
        Firsts{0, 0, 0, 0, 0, 0, 0, 0});
  CHECK(firsts_of(link_topology(SipTopology::torus_2d, 4, 2), 2) ==
        Firsts{0, 1, 0, 1, 4, 5, 4, 5});
  CHECK(firsts_of(in_nodes(joined_topology(SipTopology::full_mesh, 6), 3), 3) ==
        Firsts{0, 1, 2, 0, 1, 2});
  CHECK(firsts_of(in_nodes(joined_topology(SipTopology::full_mesh, 8), 4), 2) ==
        Firsts{0, 1, 2, 3, 0, 1, 2, 3});
}

// SIPs that stand for others would have other places in groups of the period.
TEST_CASE("nodes fold by what divides their size", "[folding]") {
  const int size = GENERATE(1, 2, 3, 4, 6);
  const Topology topology = in_nodes(joined_topology(SipTopology::full_mesh, 2 * size), size);
  for (int period = 2; period <= 2 * size; ++period) {
    CAPTURE(size, period);
    const std::string_view obstacle = Folding::find_obstacle(topology, period);
    CHECK(obstacle ==
          (size % period == 0 ? "" : "its nodes do not consist of groups of the period"));
    if (!obstacle.empty()) continue;
    const Folding folding(topology, period);
    for (int sip = 0; sip < 2 * size; ++sip) {
      CHECK(sip % period == folding.first_of(sip) % period);
    }
  }
  CHECK(Folding::find_obstacle(topology, 1) == (size == 1 ? "" : "its SIPs form nodes"));
}

TEST_CASE("machines that no shift takes to themselves are not folded", "[folding]") {
  using Obstacles = std::pair<std::string_view, std::string_view>;  // of the periods 1 and 2
  const auto obstacles = [](const Topology& topology) {
    return Obstacles{Folding::find_obstacle(topology, 1), Folding::find_obstacle(topology, 2)};
  };
  CHECK(obstacles(link_topology(SipTopology::torus_2d, 3, 3)) ==
        Obstacles{"", "no dimension has an even number of SIPs"});
  const std::string_view edges = "its SIPs at an edge have fewer links";
  CHECK(obstacles(link_topology(SipTopology::mesh_2d_no_wrap, 2, 2)) == Obstacles{edges, edges});
  CHECK(obstacles(in_nodes(joined_topology(SipTopology::full_mesh, 4), 2)) ==
        Obstacles{"its SIPs form nodes", ""});
  Topology joined = joined_topology(SipTopology::switched, 4);
  CHECK(obstacles(joined) == Obstacles{"", ""});
  joined.system.network_switch.core.latency = Time{1};
  const std::string_view shared = "its switch is one for all";
  CHECK(obstacles(joined) == Obstacles{shared, shared});
}

// The way between two SIPs, shifted link by link, is the way between the shifted ones.
TEST_CASE("a shift takes ways to ways", "[folding]") {
  const Topology topology = GENERATE(
      link_topology(SipTopology::ring_1d, 2), link_topology(SipTopology::ring_1d, 6),
      link_topology(SipTopology::torus_2d, 2, 4), joined_topology(SipTopology::torus_3d, 2, 4, 2),
      joined_topology(SipTopology::full_mesh, 4), joined_topology(SipTopology::switched, 4),
      in_nodes(joined_topology(SipTopology::full_mesh, 8), 2));
  const SipNetwork network(topology);
  for (int period = 1; period <= 4; ++period) {
    if (!Folding::find_obstacle(topology, period).empty()) continue;
    const Folding folding(topology, period);
    for (int from = 0; from < topology.system.sip_count; ++from) {
      for (int to = 0; to < topology.system.sip_count; ++to) {
        const int first = folding.first_of(from);
        const auto way = network.way(from, to);
        const auto shifted = network.way(first, folding.shift(to, from));
        CAPTURE(topology.system.topology, period, from, to);
        REQUIRE(way.size() == shifted.size());
        for (std::size_t i = 0; i < way.size(); ++i) {
          const SipNetwork::Link one = folding.shift(way[i]);
          const SipNetwork::Link other = folding.shift(shifted[i]);
          CHECK(std::pair(one.sip, one.number) == std::pair(other.sip, other.number));
          CHECK(folding.is_simulated(one.sip));
        }
      }
    }
  }
}

TEST_CASE("a SIP lies at the place as which it is seen", "[folding]") {
  const Topology topology =
      GENERATE(joined_topology(SipTopology::torus_3d, 2, 3, 2),
               in_nodes(joined_topology(SipTopology::full_mesh, 6), 2));
  const SipNetwork network(topology);
  for (int from = 0; from < topology.system.sip_count; ++from) {
    for (int sip = 0; sip < topology.system.sip_count; ++sip) {
      CHECK(network.sip_at(network.place_seen_from(from, sip), from) == sip);
    }
  }
}

}  // namespace
}  // namespace kernbench::sim::folding_test
