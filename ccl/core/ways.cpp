#include "ccl/core/ways.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "ccl/core/packing.h"
#include "sim_engine/topology/sip_network.h"

namespace kernbench::ccl {

Ways::Ways(const Topology& topology, std::span<const int> sips)
    : size_(static_cast<int>(sips.size())) {
  const sim::SipNetwork network(topology);
  std::map<std::pair<int, int>, int> known;
  std::set<std::pair<int, int>> joined;
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      std::vector<int>& links = links_.emplace_back();
      for (const sim::SipNetwork::Link& link :
           network.way(sips[static_cast<std::size_t>(from)], sips[static_cast<std::size_t>(to)])) {
        links.push_back(known.try_emplace({link.sip, link.number}, link_count_).first->second);
        link_count_ = static_cast<int>(known.size());
      }
      if (links.size() == 1) joined.emplace(from, to);
    }
  }
  const bool are_all = std::ssize(joined) == link_count_;
  if (are_all) joins_ = std::make_shared<const FlowGraph>(size_, joined);
}

bool Ways::has_flow(Kind kind) const {
  return size_ > kMostMembers && joins_ != nullptr &&
         (kind == Kind::gather || kind == Kind::scatter);
}

MessageCosts Ways::costs(const std::vector<double>& by_link) const {
  MessageCosts costs(size_);
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      for (const int link : links(from, to)) {
        costs.at(from, to) += by_link[static_cast<std::size_t>(link)];
      }
    }
  }
  return costs;
}

const Packing& Ways::packing(Kind kind, int root) const {
  const auto found = packings_.find({kind, root});
  if (found != packings_.end()) return found->second;
  return packings_[{kind, root}] = pack(*this, kind, root);
}

double Ways::least_load(Kind kind, int root) const {
  const auto found = least_loads_.find({kind, root});
  if (found != least_loads_.end()) return found->second;
  if (!serves(kind)) return 0;
  return least_loads_[{kind, root}] = find_least_load(*this, kind, root, packing(kind, root));
}

std::shared_ptr<const Ways> ways_of_sips(const Topology& topology, std::span<const int> sips) {
  // The search for a packing grows fast with the members, and on a full mesh or a switch no ways
  // share links.
  const bool is_small = sips.size() > 1 && sips.size() <= std::size_t{Ways::kMostJoined};
  const sim::SipNetwork network(topology);
  const bool is_of_grid = !network.joins_all() && std::ranges::all_of(sips, [&](int sip) {
    return network.node_of(sip) == network.node_of(sips.front());
  });
  if (!is_small || !is_of_grid) return nullptr;
  auto ways = std::make_shared<const Ways>(topology, sips);
  const bool is_served = ways->size() <= Ways::kMostMembers || ways->joins() != nullptr;
  return is_served ? ways : nullptr;
}

}  // namespace kernbench::ccl
