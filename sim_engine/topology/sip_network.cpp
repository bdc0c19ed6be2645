#include "sim_engine/topology/sip_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "sim_engine/topology/location.h"

namespace kernbench::sim {

SipNetwork::SipNetwork(const Topology& topology)
    : system_(topology.system), grid_(sip_grid(topology)) {}

namespace {

// The bandwidth of so many links together.
Bandwidth times(Bandwidth link, int count) {
  const Wide all = Wide{link.per_second} * std::max(count, 1);
  const bool is_too_much = link.is_unlimited() || all >= Wide{Bandwidth::kUnlimited};
  return is_too_much ? Bandwidth::unlimited() : Bandwidth{static_cast<std::int64_t>(all)};
}

Bandwidth sum(Bandwidth a, Bandwidth b) {
  return a.is_unlimited() || b.is_unlimited() ? Bandwidth::unlimited()
                                              : Bandwidth{a.per_second + b.per_second};
}

}  // namespace

int SipNetwork::links_per_sip() const {
  return links_in_node() + (has_nodes() ? 2 : 0);
}

int SipNetwork::links_in_node() const {
  if (has_switch()) return 2;
  if (joins_all()) return system_.sip_count;
  return system_.topology == SipTopology::torus_3d ? kCompassCount : kCubeSides;
}

std::string SipNetwork::name_of_link(int number) const {
  if (is_of_nodes(number)) return number == to_nodes() ? "to_nodes" : "from_nodes";
  if (has_switch()) return number == kToSwitch ? "to_switch" : "from_switch";
  if (joins_all()) return fmt::format("to_sip{}", number);
  return std::string(name_of(static_cast<Compass>(number)));
}

std::vector<SipNetwork::Link> SipNetwork::way(int from, int to) const {
  if (from == to) return {};
  if (node_of(from) != node_of(to)) {
    const auto first = [&](int sip) { return sip - sip % system_.nodes.sips_per_link; };
    return {{first(from), to_nodes()}, {first(to), from_nodes()}};
  }
  if (has_switch()) return {{from, kToSwitch}, {to, kFromSwitch}};
  if (joins_all()) return {{from, to}};
  std::vector<Link> links;
  while (from != to) {
    const Compass step = grid_.first_step(from, to);
    links.push_back({from, static_cast<int>(step)});
    from = grid_.neighbour(from, step);
  }
  return links;
}

int SipNetwork::hops(int from, int to) const {
  if (from == to) return 0;
  if (joins_all()) return 1;
  const auto along = [&](int a, int b, int size) {
    const int way = std::abs(a - b);
    return grid_.wraps ? std::min(way, size - way) : way;
  };
  return along(grid_.x_of(from), grid_.x_of(to), grid_.w) +
         along(grid_.y_of(from), grid_.y_of(to), grid_.h) +
         along(grid_.z_of(from), grid_.z_of(to), grid_.d);
}

Time SipNetwork::latency(int from, int to) const {
  if (node_of(from) != node_of(to)) return 2 * system_.nodes.link.latency;
  if (has_switch() && from != to) return in_node();
  return hops(from, to) * system_.sip_link.latency;
}

Time SipNetwork::to_neighbour() const {
  const Time between = 2 * system_.nodes.link.latency;
  if (!has_nodes()) return in_node();
  return system_.w == 1 ? between : std::min(in_node(), between);
}

Time SipNetwork::in_node() const {
  if (!has_switch()) return system_.sip_link.latency;
  const SwitchSpec& at = system_.network_switch;
  const Time inside = at.sums ? std::min(at.core.latency, at.sums->latency) : at.core.latency;
  return 2 * system_.sip_link.latency + inside;
}

// In a dimension of size 2 both directions lead to the same SIP.
int SipNetwork::neighbour_count(int sip) const {
  const int in_one = system_.sip_count / system_.nodes.count;
  if (in_one == 1) return 0;
  if (has_switch()) return 1;
  if (joins_all()) return in_one - 1;
  int count = 0;
  for (int i = 0; i < kCompassCount; ++i) {
    const auto direction = static_cast<Compass>(i);
    const int neighbour = grid_.neighbour(sip, direction);
    if (neighbour < 0) continue;
    const bool again = neighbour == grid_.neighbour(sip, opposite(direction));
    count += !again || i % 2 == 0;
  }
  return count;
}

int SipNetwork::degree(int sip) const {
  return neighbour_count(sip) * system_.links_per_pair;
}

int SipNetwork::link_count() const {
  int count = 0;
  for (int sip = 0; sip < system_.sip_count; ++sip) count += degree(sip);
  return count;
}

int SipNetwork::node_link_count() const {
  return has_nodes() ? system_.sip_count / system_.nodes.sips_per_link : 0;
}

Bandwidth SipNetwork::rate_of(int sip) const {
  const Bandwidth in_node = times(system_.sip_link.bandwidth, degree(sip));
  if (!has_nodes()) return in_node;
  return degree(sip) == 0 ? system_.nodes.link.bandwidth
                          : sum(in_node, system_.nodes.link.bandwidth);
}

Bandwidth SipNetwork::rate() const {
  const Bandwidth in_nodes = times(system_.sip_link.bandwidth, link_count());
  const Bandwidth between = times(system_.nodes.link.bandwidth, node_link_count());
  if (!has_nodes()) return in_nodes;
  return link_count() == 0 ? between : sum(in_nodes, between);
}

Bandwidth SipNetwork::rate_across() const {
  const Bandwidth of_one = times(system_.sip_link.bandwidth, cut_width());
  if (!has_nodes()) return of_one;
  return std::min(rate_of(0),
                  times(system_.nodes.link.bandwidth, node_link_count() / system_.nodes.count));
}

// Across a cut of a dimension; a ring is cut twice.
int SipNetwork::cut_width(int size) const {
  if (size < 2) return std::numeric_limits<int>::max();
  return grid_.count() / size * (grid_.wraps && size > 2 ? 2 : 1) * system_.links_per_pair;
}

int SipNetwork::cut_width() const {
  if (joins_all()) return degree(0);  // that of one SIP from the rest
  return std::min({cut_width(grid_.w), cut_width(grid_.h), cut_width(grid_.d)});
}

Time SipNetwork::diameter() const {
  if (has_nodes()) return 2 * system_.nodes.link.latency;
  if (joins_all()) return to_neighbour();
  const auto steps = [&](int size) { return grid_.wraps ? size / 2 : size - 1; };
  return (steps(grid_.w) + steps(grid_.h) + steps(grid_.d)) * system_.sip_link.latency;
}

}  // namespace kernbench::sim
