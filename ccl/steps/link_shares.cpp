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
  const sim::Grid grid = sim::node_grid(topology.system);
  const sim::Compass towards = grid.w > 1   ? sim::Compass::east
                               : grid.h > 1 ? sim::Compass::south
                                            : sim::Compass::down;
  const int neighbour = grid.count() > 1 ? grid.neighbour(0, towards) : 1;
  return sim::Routing(without_unlike_links(topology))
      .route({kTcm, {0, cube, 0}}, {kTcm, {neighbour, cube, 0}});
}

LinkShares::LinkShares(const Topology& topology)
    : like_(without_unlike_links(topology)),
      network_(topology),
      slowest_(way_between_neighbours(like_, 0).bottleneck) {
  find_levels();
  if (has_levels() || network_.has_unlike_links()) {
    step_ = way_between_neighbours(like_, 0).latency;
  }
  find_shares(topology.system.unlike_links);
}

// True if there are links of several levels.
bool LinkShares::has_levels() const {
  return network_.level_count() > (network_.sips_in_node() > 1 ? 0 : 1);
}

void LinkShares::find_levels() {
  const sim::SipNetwork like(like_);
  const bool has_inside = like.sips_in_node() > 1;
  const Time inside = like.to_neighbour(has_inside ? 0 : std::min(like.level_count(), 1));
  for (int level = 1; level <= like.level_count(); ++level) {
    const bool is_first = level == 1 && !has_inside;
    of_levels_.push_back(is_first ? kWhole * like_.system.links_per_pair : share_of_level(level));
    extra_of_levels_.push_back(like.to_neighbour(level) - inside);
  }
}

// Links within a node may be several in parallel.
std::int64_t LinkShares::share_of_level(int level) const {
  const Bandwidth between = network_.nodes(level).link.bandwidth;
  return between.is_unlimited() ? 0 : share_of(slowest_, between, like_.system.links_per_pair);
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
  if (const int level = network_.level_of(link.number); level > 0) {
    return of_levels_[static_cast<std::size_t>(level - 1)];
  }
  if (!network_.has_unlike_links()) return kWhole;
  const auto found = of_unlike_.find(network_.spec(link).bandwidth.per_second);
  return found == of_unlike_.end() ? kWhole : found->second;
}

Time LinkShares::extra(int from, int to) const {
  if (const int level = network_.level_between(from, to); level > 0) {
    return extra_of_levels_[static_cast<std::size_t>(level - 1)];
  }
  return network_.extra_latency(from, to);
}

}  // namespace kernbench::ccl
