#include "sim_engine/topology/sip_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "sim_engine/topology/location.h"
#include "sim_engine/topology/unlike_links.h"

namespace kernbench::sim {

namespace {

constexpr int kDimensions = 3;
constexpr int kByOtherNode = 4;  // links of a way to a SIP of the same node by one of another node

// The number of a SIP's link to greater coordinates of a dimension.
int number_ahead(int dimension) {
  constexpr std::array kAhead = {Compass::east, Compass::south, Compass::down};
  return static_cast<int>(kAhead.at(static_cast<std::size_t>(dimension)));
}

Bandwidth sum(Bandwidth a, Bandwidth b) {
  const Wide all = Wide{a.per_second} + b.per_second;
  const bool is_too_much = all >= Wide{Bandwidth::kUnlimited};
  return is_too_much ? Bandwidth::unlimited() : Bandwidth{static_cast<std::int64_t>(all)};
}

// The bandwidth of so many links together.
Bandwidth times(Bandwidth link, int count) {
  if (count == 0) return {0};
  const Wide all = Wide{link.per_second} * count;
  const bool is_too_much = link.is_unlimited() || all >= Wide{Bandwidth::kUnlimited};
  return is_too_much ? Bandwidth::unlimited() : Bandwidth{static_cast<std::int64_t>(all)};
}

}  // namespace

SipNetwork::SipNetwork(const Topology& topology)
    : system_(topology.system), grid_(sip_grid(topology)) {
  if (!system_.unlike_links.empty()) find_specs();
}

// In a dimension of size 2 both directions lead to the same SIP.
template <class Visit>
void SipNetwork::for_each_link(int sip, Visit visit) const {
  const int in_one = system_.sip_count / system_.nodes.count;
  if (in_one == 1) return;
  if (has_switch()) return visit(Link{sip, kToSwitch});
  if (joins_all()) {
    for (int other = node_of(sip) * in_one; other < (node_of(sip) + 1) * in_one; ++other) {
      if (other != sip) visit(Link{sip, other});
    }
    return;
  }
  for (int i = 0; i < kCompassCount; ++i) {
    const auto direction = static_cast<Compass>(i);
    const int neighbour = grid_.neighbour(sip, direction);
    if (neighbour < 0) continue;
    const bool again = neighbour == grid_.neighbour(sip, opposite(direction));
    if (!again || i % 2 == 0) visit(Link{sip, i});
  }
}

void SipNetwork::find_specs() {
  for (int sip = 0; sip < system_.sip_count; ++sip) {
    for (int number = 0; number < links_in_node(); ++number) {
      const UnlikeLinks* const unlike = find_unlike({sip, number});
      specs_.push_back(unlike == nullptr ? system_.sip_link : unlike->link);
    }
  }
  least_latencies_.fill(Time::max());
  for (int sip = 0; sip < system_.sip_count; ++sip) {
    for_each_link(sip, [&](const Link& link) {
      const bool is_of_grid = !joins_all();
      Time& least = least_latencies_.at(is_of_grid ? static_cast<std::size_t>(link.number) / 2 : 0);
      least = std::min(least, spec(link).latency);
    });
  }
}

const UnlikeLinks* SipNetwork::find_unlike(const Link& link) const {
  if (is_of_nodes(link.number)) return nullptr;
  const UnlikeLinks* found = nullptr;
  for (const UnlikeLinks& links : system_.unlike_links) {
    if (include(links, link.sip, link.number, neighbour_of(link))) found = &links;
  }
  return found;
}

// The SIP at the other end; -1 of the switch, or if there is none.
int SipNetwork::neighbour_of(const Link& link) const {
  if (has_switch()) return -1;
  return joins_all() ? link.number : grid_.neighbour(link.sip, static_cast<Compass>(link.number));
}

const LinkSpec& SipNetwork::spec(const Link& link) const {
  if (is_of_nodes(link.number)) return system_.nodes.link;
  if (specs_.empty()) return system_.sip_link;
  return specs_[static_cast<std::size_t>(link.sip * links_in_node() + link.number)];
}

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
  if (from == to) return Time{0};
  if (node_of(from) != node_of(to)) return 2 * system_.nodes.link.latency;
  const Time within = latency_in_node(from, to);
  return has_nodes() ? std::min(within, kByOtherNode * system_.nodes.link.latency) : within;
}

// Whatever way is taken, a grid's has at least so many steps in each dimension.
Time SipNetwork::latency_in_node(int from, int to) const {
  if (has_switch()) {
    return spec({from, kToSwitch}).latency + in_switch() + spec({to, kFromSwitch}).latency;
  }
  if (joins_all()) return std::min(spec({from, to}).latency, 2 * least_latency());
  const auto along = [&](int a, int b, int dimension) {
    const int size = size_of(dimension);
    const int way = std::abs(a - b);
    const int steps = grid_.wraps ? std::min(way, size - way) : way;
    return steps == 0 ? Time{0} : steps * least_latency(dimension);
  };
  return along(grid_.x_of(from), grid_.x_of(to), 0) + along(grid_.y_of(from), grid_.y_of(to), 1) +
         along(grid_.z_of(from), grid_.z_of(to), 2);
}

Time SipNetwork::extra_latency(int from, int to) const {
  if (!has_unlike_links()) return Time{0};
  Time extra{0};
  for (const Link& link : way(from, to)) {
    if (!is_of_nodes(link.number)) extra += spec(link).latency - system_.sip_link.latency;
  }
  return extra;
}

Time SipNetwork::to_neighbour() const {
  const Time between = 2 * system_.nodes.link.latency;
  if (!has_nodes()) return in_node();
  return system_.w == 1 ? between : std::min(in_node(), between);
}

Time SipNetwork::in_node() const {
  return has_switch() ? 2 * least_latency() + in_switch() : least_latency();
}

Time SipNetwork::in_switch() const {
  const SwitchSpec& at = system_.network_switch;
  return at.sums ? std::min(at.core.latency, at.sums->latency) : at.core.latency;
}

Time SipNetwork::least_latency() const {
  return has_unlike_links() ? *std::ranges::min_element(least_latencies_)
                            : system_.sip_link.latency;
}

Time SipNetwork::least_latency(int dimension) const {
  return has_unlike_links() ? least_latencies_.at(static_cast<std::size_t>(dimension))
                            : system_.sip_link.latency;
}

int SipNetwork::degree(int sip) const {
  int count = 0;
  for_each_link(sip, [&](const Link&) { ++count; });
  return count * system_.links_per_pair;
}

int SipNetwork::link_count() const {
  int count = 0;
  for (int sip = 0; sip < system_.sip_count; ++sip) count += degree(sip);
  return count;
}

int SipNetwork::node_link_count() const {
  return has_nodes() ? system_.sip_count / system_.nodes.sips_per_link : 0;
}

Bandwidth SipNetwork::rate_in_node(int sip) const {
  if (!has_unlike_links()) return times(system_.sip_link.bandwidth, degree(sip));
  Bandwidth rate{0};
  for_each_link(sip, [&](const Link& link) { rate = sum(rate, spec(link).bandwidth); });
  return times(rate, system_.links_per_pair);
}

// A SIP alone is told the rate of a link that it would have.
Bandwidth SipNetwork::rate_of(int sip) const {
  const Bandwidth in_node = rate_in_node(sip);
  if (has_nodes()) return sum(in_node, system_.nodes.link.bandwidth);
  return in_node.per_second == 0 ? system_.sip_link.bandwidth : in_node;
}

Bandwidth SipNetwork::rate() const {
  Bandwidth rate = times(system_.nodes.link.bandwidth, node_link_count());
  for (int sip = 0; sip < system_.sip_count; ++sip) rate = sum(rate, rate_in_node(sip));
  return rate.per_second == 0 ? system_.sip_link.bandwidth : rate;
}

// The cut of SIPs that all join parts one of them from the rest.
Bandwidth SipNetwork::rate_across() const {
  Bandwidth least = Bandwidth::unlimited();
  if (joins_all()) {
    for (int sip = 0; sip < system_.sip_count; ++sip) least = std::min(least, rate_of(sip));
  } else {
    for (int i = 0; i < kDimensions; ++i) least = std::min(least, rate_across(i));
  }
  if (!has_nodes()) return least;
  return std::min(least,
                  times(system_.nodes.link.bandwidth, node_link_count() / system_.nodes.count));
}

// A ring is cut at two borders.
Bandwidth SipNetwork::rate_across(int dimension) const {
  const int size = size_of(dimension);
  if (size < 2) return Bandwidth::unlimited();
  const bool is_ring = grid_.wraps && size > 2;
  Bandwidth first = Bandwidth::unlimited();
  Bandwidth second = first;
  for (int border = 0; border < size - (is_ring ? 0 : 1); ++border) {
    const Bandwidth rate = rate_across(dimension, border);
    second = std::min(second, std::max(first, rate));
    first = std::min(first, rate);
  }
  return is_ring ? sum(first, second) : first;
}

Bandwidth SipNetwork::rate_across(int dimension, int border) const {
  if (!has_unlike_links()) {
    return times(system_.sip_link.bandwidth,
                 grid_.count() / size_of(dimension) * system_.links_per_pair);
  }
  Bandwidth rate{0};
  for (int sip = 0; sip < grid_.count(); ++sip) {
    const int at = std::array{grid_.x_of(sip), grid_.y_of(sip), grid_.z_of(sip)}.at(
        static_cast<std::size_t>(dimension));
    if (at == border) rate = sum(rate, spec({sip, number_ahead(dimension)}).bandwidth);
  }
  return times(rate, system_.links_per_pair);
}

Bandwidth SipNetwork::fastest() const {
  if (!has_unlike_links()) return system_.sip_link.bandwidth;
  Bandwidth most{0};
  for (int sip = 0; sip < system_.sip_count; ++sip) {
    for_each_link(sip, [&](const Link& link) { most = std::max(most, spec(link).bandwidth); });
  }
  return most;
}

Bandwidth SipNetwork::slowest(int dimension) const {
  Bandwidth least = Bandwidth::unlimited();
  for (int sip = 0; sip < system_.sip_count; ++sip) {
    const Link ahead{sip, number_ahead(dimension)};
    if (neighbour_of(ahead) >= 0) least = std::min(least, spec(ahead).bandwidth);
  }
  return least;
}

int SipNetwork::size_of(int dimension) const {
  return std::array{grid_.w, grid_.h, grid_.d}.at(static_cast<std::size_t>(dimension));
}

Time SipNetwork::diameter() const {
  if (has_nodes()) return 2 * system_.nodes.link.latency;
  if (joins_all()) return to_neighbour();
  Time way{0};
  for (int i = 0; i < kDimensions; ++i) {
    const int steps = grid_.wraps ? size_of(i) / 2 : size_of(i) - 1;
    if (steps > 0) way += steps * least_latency(i);
  }
  return way;
}

}  // namespace kernbench::sim
