#include "ccl/steps/link_shares.h"

#include <algorithm>

namespace kernbench::ccl {

namespace {

constexpr std::int64_t kMost = 4096 * LinkShares::kWhole;  // a way within may be unlimited

Topology without_unlike_links(Topology topology) {
  topology.system.unlike_links.clear();
  return topology;
}

// The time of bytes at `slow` in kWhole-ths of that at `fast`.
std::int64_t share_of(Bandwidth fast, Bandwidth slow, int fast_links) {
  const Wide share = Wide{fast.per_second} * LinkShares::kWhole * fast_links;
  return static_cast<std::int64_t>(std::min(Wide{kMost}, share / slow.per_second));
}

}  // namespace

sim::Path way_between_neighbours(const Topology& topology, int cube) {
  constexpr auto kTcm = sim::Endpoint::Kind::tcm;
  const sim::Grid grid = sim::sip_grid(topology);
  const sim::Compass towards = grid.w > 1   ? sim::Compass::east
                               : grid.h > 1 ? sim::Compass::south
                                            : sim::Compass::down;
  return sim::Routing(without_unlike_links(topology))
      .route({kTcm, {0, cube, 0}}, {kTcm, {grid.neighbour(0, towards), cube, 0}});
}

LinkShares::LinkShares(const Topology& topology)
    : like_(without_unlike_links(topology)),
      network_(topology),
      slowest_(way_between_neighbours(like_, 0).bottleneck),
      of_nodes_(share_of_nodes()) {
  const bool has_levels = network_.has_nodes() && like_.system.w > 1;
  if (has_levels) {
    const sim::SipNetwork like(like_);
    to_other_node_ = like.latency(0, like_.system.w) - like.latency(0, 1);
  }
  if (has_levels || network_.has_unlike_links()) step_ = way_between_neighbours(like_, 0).latency;
  find_shares(topology.system.unlike_links);
}

// Links within a node may be several in parallel.
std::int64_t LinkShares::share_of_nodes() const {
  const Topology::System& system = like_.system;
  if (system.nodes.count == 1) return 0;
  if (system.w == 1) return kWhole * system.links_per_pair;  // there are no others
  const Bandwidth between = system.nodes.link.bandwidth;
  return between.is_unlimited() ? 0 : share_of(slowest_, between, system.links_per_pair);
}

void LinkShares::find_shares(const std::vector<UnlikeLinks>& unlike) {
  for (const UnlikeLinks& links : unlike) {
    Topology other = like_;
    other.system.sip_link.bandwidth = links.link.bandwidth;
    const Bandwidth rate = way_between_neighbours(other, 0).bottleneck;
    of_unlike_[links.link.bandwidth.per_second] =
        std::max<std::int64_t>(share_of(slowest_, rate, 1), 1);
  }
}

std::int64_t LinkShares::of(const sim::SipNetwork::Link& link) const {
  if (network_.is_of_nodes(link.number)) return of_nodes_;
  if (!network_.has_unlike_links()) return kWhole;
  const auto found = of_unlike_.find(network_.spec(link).bandwidth.per_second);
  return found == of_unlike_.end() ? kWhole : found->second;
}

Time LinkShares::extra(int from, int to) const {
  if (network_.node_of(from) != network_.node_of(to)) return to_other_node_;
  return network_.extra_latency(from, to);
}

}  // namespace kernbench::ccl
