// Messages ask the host's memory ahead for what they will touch (ADR-0231, ADR-0270).

#include "sim_engine/base/prefetch.h"
#include "sim_engine/components/fabric.h"

namespace kernbench::sim {

void Fabric::Transfer::prefetch(int stage) const {
  if (stage == 0) return ask_for(this, sizeof *this);
  if (stage == 1) {
    ask_for(path, sizeof *path);
    ask_for(arrivals.data(), sizeof(Arrival) * (hop + 1));
  }
  if (delivered.prefetch != nullptr) {
    delivered.prefetch(delivered.object, delivered.argument, stage - 1);
  }
}

void Fabric::prefetch(const Path& path, int stage) const {
  if (stage == 0) return ask_for(&path, sizeof path);
  if (stage == 1) return ask_for(path.hops.data(), path.hops.size() * sizeof(LinkId));
  for (const LinkId hop : path.hops) {
    const Link& link = links_[hop];
    if (stage == 2) {
      ask_for(&link, sizeof link);
    } else {
      ask_for(link.first, sizeof(Visit));
      ask_for(link.last, sizeof(Visit));
    }
  }
}

}  // namespace kernbench::sim
