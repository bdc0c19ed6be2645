// The ways of messages: each is found once, and leads over links that are simulated.

#include <memory>
#include <utility>

#include "sim_engine/components/fabric.h"

namespace kernbench::sim {

const Path& Fabric::path(const Endpoint& from, const Endpoint& to) {
  if (!folding_.is_simulated(from.at.sip)) {
    Endpoint first = from;
    Endpoint shifted = to;
    first.at.sip = folding_.first_of(from.at.sip);
    shifted.at.sip = folding_.shift(to.at.sip, from.at.sip);
    return path(first, shifted);
  }
  const std::uint64_t key = routing_.make_key(from) << 32 | routing_.make_key(to);
  auto& path = paths_[key];
  if (!path) {
    Path route = routing_.route(from, to);
    if (folding_.is_on()) fold(route);
    path = std::make_unique<const Path>(std::move(route));
    // All transfers have room for the longest way, so that one that is used again needs no memory.
    if (path->hops.size() >= longest_way_) {
      longest_way_ = path->hops.size() + 1;
      for (Transfer& transfer : transfers_) transfer.arrivals.resize(longest_way_);
    }
  }
  return *path;
}

// A path leads over links that are simulated: each stands for the one of its class that the path
// passes, and where that one serves this path, it serves a shifted one at the same time.
void Fabric::fold(Path& path) const {
  for (auto* links : {&path.links, &path.hops}) {
    for (LinkId& link : *links) link = routing_.shift(link, folding_);
  }
  path.slowest = routing_.shift(path.slowest, folding_);
}

}  // namespace kernbench::sim
