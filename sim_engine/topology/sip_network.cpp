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

}  // namespace

SipNetwork::SipNetwork(const Topology& topology)
    : system_(topology.system), grid_(node_grid(topology.system)) {
  const NodesSpec& nodes = system_.nodes;
  int sips = static_cast<int>(system_.sip_count / system_.node_count());
  sips_in_node_.push_back(sips);
  if (system_.node_count() > 1) {
    levels_.assign(nodes.inner.rbegin(), nodes.inner.rend());
    levels_.push_back(nodes);
    for (const NodeLevel& level : levels_) sips_in_node_.push_back(sips *= level.count);
  }
  if (!system_.unlike_links.empty()) find_specs();
}

int SipNetwork::level_between(int from, int to) const {
  int level = 0;
  while (node_of(from, level + 1) != node_of(to, level + 1)) ++level;
  return level;
}

std::string SipNetwork::section_of(int level) const {
  std::string section = "nodes";
  for (int outer = level; outer < level_count(); ++outer) section += ".nodes";
  return section;
}

int SipNetwork::place_seen_from(int sip, int other) const {
  const int in_node = sips_in_node();
  int place = grid_.place_seen_from(sip % in_node, other % in_node);
  for (int level = 1; level <= level_count(); ++level) {
    const int count = nodes(level).count;
    const int ahead = (node_of(other, level) - node_of(sip, level)) % count;
    place += sips_in_node(level) * (ahead < 0 ? ahead + count : ahead);
  }
  return place;
}

int SipNetwork::sip_at(int place, int from) const {
  const int in_node = sips_in_node();
  const Grid& grid = grid_;
  const int there = place % in_node;
  const int here = from % in_node;
  int sip = grid.index_of((grid.x_of(here) + grid.x_of(there)) % grid.w,
                          (grid.y_of(here) + grid.y_of(there)) % grid.h,
                          (grid.z_of(here) + grid.z_of(there)) % grid.d);
  for (int level = 1; level <= level_count(); ++level) {
    const int count = nodes(level).count;
    const int ahead = place / sips_in_node(level) % count;
    sip += sips_in_node(level) * ((node_of(from, level) + ahead) % count);
  }
  return sip;
}

// In a dimension of size 2 both directions lead to the same SIP.
std::vector<SipNetwork::Link> SipNetwork::links_out_of(int sip) const {
  const int in_node = sips_in_node();
  if (in_node == 1) return {};
  if (has_switch()) return {{sip, kToSwitch}};
  std::vector<Link> links;
  if (joins_all()) {
    for (int other = node_of(sip) * in_node; other < (node_of(sip) + 1) * in_node; ++other) {
      if (other != sip) links.push_back({sip, other});
    }
    return links;
  }
  for (int i = 0; i < kCompassCount; ++i) {
    const int neighbour = neighbour_of({sip, i});
    if (neighbour < 0) continue;
    const bool again =
        neighbour == neighbour_of({sip, static_cast<int>(opposite(static_cast<Compass>(i)))});
    if (!again || i % 2 == 0) links.push_back({sip, i});
  }
  return links;
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
    for (const Link& link : links_out_of(sip)) {
      const bool is_of_grid = !joins_all();
      Time& least = least_latencies_.at(is_of_grid ? static_cast<std::size_t>(link.number) / 2 : 0);
      least = std::min(least, spec(link).latency);
    }
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
  if (joins_all()) return link.number;
  const int place = link.sip % sips_in_node();
  const int next = grid_.neighbour(place, static_cast<Compass>(link.number));
  return next < 0 ? -1 : link.sip - place + next;
}

const LinkSpec& SipNetwork::spec(const Link& link) const {
  if (is_of_nodes(link.number)) return nodes(level_of(link.number)).link;
  if (specs_.empty()) return system_.sip_link;
  return specs_[static_cast<std::size_t>(link.sip * links_in_node() + link.number)];
}

int SipNetwork::links_per_sip() const {
  return links_in_node() + 2 * level_count();
}

int SipNetwork::links_in_node() const {
  if (has_switch()) return 2;
  if (joins_all()) return system_.sip_count;
  return system_.topology == SipTopology::torus_3d ? kCompassCount : kCubeSides;
}

std::string SipNetwork::name_of_link(int number) const {
  if (const int level = level_of(number); level > 0) {
    return (number == to_nodes(level) ? "to_" : "from_") + section_of(level);
  }
  if (has_switch()) return number == kToSwitch ? "to_switch" : "from_switch";
  if (joins_all()) return fmt::format("to_sip{}", number);
  return std::string(name_of(static_cast<Compass>(number)));
}

std::vector<SipNetwork::Link> SipNetwork::way(int from, int to) const {
  if (from == to) return {};
  std::vector<Link> links;
  if (const int level = level_between(from, to); level > 0 || has_switch()) {
    const std::vector<int> passed = levels_passed(level);
    const auto first = [&](int sip, int at) { return sip - sip % nodes(at).sips_per_link; };
    std::for_each(passed.rbegin(), passed.rend(), [&](int at) {
      links.push_back(at == 0 ? Link{from, kToSwitch} : Link{first(from, at), to_nodes(at)});
    });
    for (const int at : passed) {
      links.push_back(at == 0 ? Link{to, kFromSwitch} : Link{first(to, at), from_nodes(at)});
    }
    return links;
  }
  if (joins_all()) return {{from, to}};
  const int first = from - from % sips_in_node();
  while (from != to) {
    const Compass step = grid_.first_step(from - first, to - first);
    links.push_back({from, static_cast<int>(step)});
    from = neighbour_of(links.back());
  }
  return links;
}

std::vector<int> SipNetwork::levels_passed(int level) const {
  std::vector<int> passed = {level};
  while (passed.back() > 0 && nodes(passed.back()).through_inner) {
    passed.push_back(passed.back() - 1);
  }
  return passed;
}

int SipNetwork::hops(int from, int to) const {
  if (from == to) return 0;
  if (joins_all() || level_between(from, to) > 0) return 1;
  from %= sips_in_node();
  to %= sips_in_node();
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
  const int level = level_between(from, to);
  return std::min(level > 0 ? to_neighbour(level) : latency_in_node(from, to),
                  by_other_nodes(level));
}

Time SipNetwork::by_other_nodes(int level) const {
  Time least = Time::max();
  for (int outer = level + 1; outer <= level_count(); ++outer) {
    if (nodes(outer).count > 1) least = std::min(least, 2 * to_neighbour(outer));
  }
  return least;
}

// Whatever way is taken, a grid's has at least so many steps in each dimension.
Time SipNetwork::latency_in_node(int from, int to) const {
  if (has_switch()) {
    return spec({from, kToSwitch}).latency + in_switch() + spec({to, kFromSwitch}).latency;
  }
  if (joins_all()) return std::min(spec({from, to}).latency, 2 * least_latency());
  from %= sips_in_node();
  to %= sips_in_node();
  const auto along = [&](int a, int b, int dimension) {
    const int size = size_along(dimension);
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
  Time least = sips_in_node() > 1 || !has_nodes() ? in_node() : Time::max();
  for (int level = 1; level <= level_count(); ++level) {
    if (nodes(level).count > 1) least = std::min(least, to_neighbour(level));
  }
  return least;
}

Time SipNetwork::to_neighbour(int level) const {
  if (level == 0) return in_node();
  Time one_way{0};
  for (const int at : levels_passed(level)) {
    one_way += at == 0 ? least_latency() + in_switch() : nodes(at).link.latency;
  }
  return 2 * one_way;
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
  return static_cast<int>(std::ssize(links_out_of(sip))) * system_.links_per_pair;
}

int SipNetwork::link_count() const {
  int count = 0;
  for (int sip = 0; sip < system_.sip_count; ++sip) count += degree(sip);
  return count;
}

int SipNetwork::node_link_count(int level) const {
  return system_.sip_count / nodes(level).sips_per_link;
}

int SipNetwork::size_along(int dimension) const {
  return std::array{grid_.w, grid_.h, grid_.d}.at(static_cast<std::size_t>(dimension));
}

Time SipNetwork::diameter() const {
  Time way{0};
  for (int i = 0; i < kDimensions && !joins_all(); ++i) {
    const int steps = grid_.wraps ? size_along(i) / 2 : size_along(i) - 1;
    if (steps > 0) way += steps * least_latency(i);
  }
  if (joins_all() && (sips_in_node() > 1 || !has_nodes())) way = in_node();
  way = std::min(way, by_other_nodes(0));
  for (int level = 1; level <= level_count(); ++level) {
    if (nodes(level).count == 1) continue;
    way = std::max(way, std::min(to_neighbour(level), by_other_nodes(level)));
  }
  return way;
}

}  // namespace kernbench::sim
