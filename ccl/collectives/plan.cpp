#include "ccl/collectives/plan.h"

#include <algorithm>

#include "ccl/ring_order.h"
#include "sim_engine/topology/grid.h"

namespace kernbench::ccl {

namespace {

bool are_neighbours(const sim::Grid& grid, int a, int b) {
  for (int i = 0; i < sim::kCompassCount; ++i) {
    if (grid.neighbour(a, static_cast<sim::Compass>(i)) == b) return true;
  }
  return false;
}

}  // namespace

int MemberRing::member_after(int member, int distance) const {
  const int position = positions[static_cast<std::size_t>(member)] + distance;
  return members[static_cast<std::size_t>(((position % size()) + size()) % size())];
}

MemberRing member_ring(const Topology& topology, const std::vector<int>& sips) {
  const sim::Grid grid = sim::sip_grid(topology);
  const std::vector<int> order = ring_order(grid);
  MemberRing ring;
  ring.node_count = static_cast<int>(order.size());
  ring.closes = are_neighbours(grid, order.back(), order.front());
  ring.positions.resize(sips.size());
  for (int node = 0; node < ring.node_count; ++node) {
    for (std::size_t member = 0; member < sips.size(); ++member) {
      if (sips[member] != order[static_cast<std::size_t>(node)]) continue;
      ring.positions[member] = ring.size();
      ring.members.push_back(static_cast<int>(member));
      ring.nodes.push_back(node);
    }
  }
  return ring;
}

std::string_view pattern_of(distributed::CollectiveKind kind) {
  using distributed::CollectiveKind;
  switch (kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::barrier:  // is an all_reduce of one element
      return "ring";
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
      return "chain";
    default:
      return "pairs";
  }
}

ShardRange shard_range(const distributed::Block& block, const Cut& cut, int layout,
                       const Fragment& fragment) {
  const auto index = static_cast<std::size_t>(layout);
  const FragmentAt& at = fragment.at[index];
  const Slice& slice = cut.layouts[index].tensor->slices[static_cast<std::size_t>(at.slice)];
  return {&block.tensor, &slice, at.offset, at.pitch};
}

}  // namespace kernbench::ccl
