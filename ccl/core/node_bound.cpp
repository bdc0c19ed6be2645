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

// The members of a group on a node, and the links between nodes that they have.
struct NodeOfGroup {
  std::vector<std::size_t> members;
  std::set<int> links;  // by the SIP to which each belongs
};

std::map<int, NodeOfGroup> nodes_of_group(const sim::SipNetwork& network, std::span<const int> sips,
                                          int sips_per_link) {
  std::map<int, NodeOfGroup> nodes;
  for (std::size_t member = 0; member < sips.size(); ++member) {
    NodeOfGroup& node = nodes[network.node_of(sips[member])];
    node.members.push_back(member);
    node.links.insert(sips[member] / sips_per_link);
  }
  return nodes;
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
  if (!network.has_nodes() || sips.size() > kMostNodeMembers) return Time{0};
  const NodesSpec& spec = topology.system.nodes;
  Time bound{0};
  for (const auto& [node, own] : nodes_of_group(network, sips, spec.sips_per_link)) {
    std::vector<std::size_t> others;
    for (std::size_t member = 0; member < sips.size(); ++member) {
      if (network.node_of(sips[member]) != node) others.push_back(member);
    }
    const Bytes bytes = std::max(bytes_between(own.members, others, kind, needs),
                                 bytes_between(others, own.members, kind, needs));
    if (bytes == 0) continue;
    bound = std::max(bound, 2 * spec.link.latency +
                                at_least(bytes, 1, std::ssize(own.links), spec.link.bandwidth));
  }
  return bound;
}

}  // namespace kernbench::ccl
