#include <algorithm>
#include <array>

#include "sim_engine/topology/location.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::sim {

namespace {

constexpr int kDimensionsOfGrid = 3;

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

// The most links of a level that some SIPs that follow each other have.
int links_of(int sips, int sips_per_link) {
  if (sips % sips_per_link == 0) return sips / sips_per_link;
  return sips_per_link % sips == 0 ? 1 : sips / sips_per_link + 2;
}

}  // namespace

Bandwidth SipNetwork::rate_in_node(int sip) const {
  if (!has_unlike_links()) return times(system_.sip_link.bandwidth, degree(sip));
  Bandwidth rate{0};
  for (const Link& link : links_out_of(sip)) rate = sum(rate, spec(link).bandwidth);
  return times(rate, system_.links_per_pair);
}

Bandwidth SipNetwork::rate_beyond(int level, int sips) const {
  Bandwidth rate{0};
  for (int outer = level + 1; outer <= level_count(); ++outer) {
    const NodeLevel& at = nodes(outer);
    if (!at.through_inner) {
      rate = sum(rate, times(at.link.bandwidth, links_of(sips, at.sips_per_link)));
    }
  }
  return rate;
}

Bandwidth SipNetwork::rate_between_nodes(int level) const {
  return sum(times(nodes(level).link.bandwidth, node_link_count(level)),
             rate_beyond(level, system_.sip_count));
}

// A SIP alone is told the rate of a link that it would have.
Bandwidth SipNetwork::rate_of(int sip) const {
  const Bandwidth rate = sum(rate_in_node(sip), rate_beyond(0, 1));
  return rate.per_second == 0 ? system_.sip_link.bandwidth : rate;
}

Bandwidth SipNetwork::rate() const {
  Bandwidth rate = rate_beyond(0, system_.sip_count);
  for (int sip = 0; sip < system_.sip_count; ++sip) rate = sum(rate, rate_in_node(sip));
  return rate.per_second == 0 ? system_.sip_link.bandwidth : rate;
}

// The cut of SIPs that all join parts one of them from the rest, and so it does in nodes.
Bandwidth SipNetwork::rate_across() const {
  Bandwidth least = Bandwidth::unlimited();
  if (joins_all() || has_nodes()) {
    for (int sip = 0; sip < system_.sip_count; ++sip) least = std::min(least, rate_of(sip));
  } else {
    for (int i = 0; i < kDimensionsOfGrid; ++i) least = std::min(least, rate_across(i));
  }
  for (int level = 1; level <= level_count(); ++level) {
    if (nodes(level).count == 1) continue;
    const int sips = sips_in_node(level);
    const Bandwidth own =
        times(nodes(level).link.bandwidth, links_of(sips, nodes(level).sips_per_link));
    least = std::min(least, sum(own, rate_beyond(level, sips)));
  }
  return least;
}

// A ring is cut at two borders.
Bandwidth SipNetwork::rate_across(int dimension) const {
  const int size = size_along(dimension);
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
                 grid_.count() / size_along(dimension) * system_.links_per_pair);
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
    for (const Link& link : links_out_of(sip)) most = std::max(most, spec(link).bandwidth);
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

}  // namespace kernbench::sim
