#include "ccl/core/node_bound.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

Time at_least(Bytes bytes, std::int64_t numerator, std::int64_t denominator, Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return Time{0};
  return Time{static_cast<std::int64_t>(static_cast<Wide>(bytes) * 1'000'000'000'000 * numerator /
                                        denominator / bandwidth.per_second)};
}

namespace {

using distributed::BlockCount;
using distributed::CollectiveKind;

// Larger groups are not looked at member by member.
constexpr std::size_t kMostNodeMembers = 64;

// The members of a group by node of a level.
std::map<int, std::vector<std::size_t>> members_by_node(const sim::SipNetwork& network,
                                                        std::span<const int> sips, int level) {
  std::map<int, std::vector<std::size_t>> nodes;
  for (std::size_t member = 0; member < sips.size(); ++member) {
    nodes[network.node_of(sips[member], level)].push_back(member);
  }
  return nodes;
}

// The rate of the links out of a node that its members have: those of its level, and of further
// levels those that are taken first.
Bandwidth rate_of_members(const sim::SipNetwork& network, std::span<const int> sips,
                          const std::vector<std::size_t>& members, int level) {
  Wide rate = 0;
  for (int at = level; at <= network.level_count(); ++at) {
    const NodeLevel& nodes = network.nodes(at);
    if (at > level && nodes.through_inner) continue;
    if (at > level && nodes.count == 1) continue;
    std::set<int> links;
    for (const std::size_t member : members) links.insert(sips[member] / nodes.sips_per_link);
    rate += Wide{nodes.link.bandwidth.per_second} * std::ssize(links);
  }
  const bool is_too_much = rate >= Wide{Bandwidth::kUnlimited};
  return is_too_much ? Bandwidth::unlimited() : Bandwidth{static_cast<std::int64_t>(rate)};
}

// The least latency from a node of a level to another.
Time least_latency_beyond(const sim::SipNetwork& network, int level) {
  Time least = Time::max();
  for (int at = level; at <= network.level_count(); ++at) {
    if (network.nodes(at).count > 1) least = std::min(least, network.to_neighbour(at));
  }
  return least;
}

// The bytes that must go from some members to others: data that are the same for all takers, or are
// summed up on the way, go once.
Bytes bytes_between(const std::vector<std::size_t>& givers, const std::vector<std::size_t>& takers,
                    CollectiveKind kind, const BytesOfPair& needs) {
  const bool sends_once = traits_of(kind).gives == BlockCount::one;
  const bool receives_once = traits_of(kind).takes == BlockCount::one;
  Bytes most = 0;
  Bytes all = 0;
  const auto& outer = sends_once ? givers : takers;
  const auto& inner = sends_once ? takers : givers;
  for (const std::size_t one : outer) {
    Bytes largest = 0;
    Bytes sum = 0;
    for (const std::size_t other : inner) {
      const Bytes bytes = sends_once ? needs(one, other) : needs(other, one);
      largest = std::max(largest, bytes);
      sum += bytes;
    }
    all += sends_once || receives_once ? largest : sum;
    most = std::max(most, largest);
  }
  return sends_once && receives_once ? most : all;
}

}  // namespace

Time bound_of_nodes(const Topology& topology, std::span<const int> sips, CollectiveKind kind,
                    const BytesOfPair& needs) {
  const sim::SipNetwork network(topology);
  if (sips.size() > kMostNodeMembers) return Time{0};
  Time bound{0};
  for (int level = 1; level <= network.level_count(); ++level) {
    for (const auto& [node, own] : members_by_node(network, sips, level)) {
      std::vector<std::size_t> others;
      for (std::size_t member = 0; member < sips.size(); ++member) {
        if (network.node_of(sips[member], level) != node) others.push_back(member);
      }
      const Bytes bytes = std::max(bytes_between(own, others, kind, needs),
                                   bytes_between(others, own, kind, needs));
      if (bytes == 0) continue;
      const Bandwidth rate = rate_of_members(network, sips, own, level);
      bound = std::max(bound, least_latency_beyond(network, level) + at_least(bytes, 1, 1, rate));
    }
  }
  return bound;
}

}  // namespace kernbench::ccl
