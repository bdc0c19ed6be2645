#include <algorithm>

#include "ccl/collectives/plan.h"

namespace kernbench::ccl {

namespace {

// A member's neighbours in its chain.
struct Links {
  int inner = kNobody;                            // towards the root
  std::array<int, 2> outer = {kNobody, kNobody};  // away from the root; only the root has two
};

// Each member joins the chain that is the shorter way to it, so that both chains begin with
// different links; if the ring does not close, it joins the chain on its side.
Links links_of(const MemberRing& ring, int root, int self) {
  const int size = ring.size();
  const int root_position = ring.positions[static_cast<std::size_t>(root)];
  const int root_node = ring.nodes[static_cast<std::size_t>(root_position)];
  int forwards = 0;  // members of the chain that goes forwards
  for (int distance = 1; distance < size; ++distance) {
    const int position = (root_position + distance) % size;
    const int node = ring.nodes[static_cast<std::size_t>(position)];
    const int way = (node - root_node + ring.node_count) % ring.node_count;
    forwards += ring.closes ? way <= ring.node_count / 2 : node > root_node;
  }
  const auto at = [&](int distance) { return ring.member_after(root, distance); };
  const int backwards = size - 1 - forwards;
  if (self == root) {
    return {kNobody, {forwards > 0 ? at(1) : kNobody, backwards > 0 ? at(-1) : kNobody}};
  }
  const int distance =
      (ring.positions[static_cast<std::size_t>(self)] - root_position + size) % size;
  if (distance <= forwards) {
    return {at(distance - 1), {distance < forwards ? at(distance + 1) : kNobody, kNobody}};
  }
  const int back = size - distance;
  return {at(1 - back), {back < backwards ? at(-back - 1) : kNobody, kNobody}};
}

}  // namespace

LaneSteps chain_steps(const MemberView& view, const SharedCut& cut) {
  const distributed::CollectiveRequest& request = view.request;
  const bool is_root = view.self == request.root;
  const bool reduces = request.kind == distributed::CollectiveKind::reduce;
  const Links links = links_of(view.ring, request.root, view.self);
  const auto self = static_cast<std::size_t>(view.self);
  // A partial tensor becomes replicated, on the root too.
  const bool is_partial =
      cut.cut->layouts[static_cast<std::size_t>(cut.takes[self])].tensor->is_partial;
  const bool has_source = reduces || is_root;
  const bool has_target = reduces ? is_root : !is_root || is_partial;
  LaneSteps steps;
  if (view.ring.size() == 1 && !is_partial) return steps;
  for (const auto& [lane, fragments] : cut.cut->fragments) {
    for (const Fragment& fragment : fragments) {
      Step& step = steps[lane].emplace_back();
      step.rows = fragment.rows;
      step.columns = fragment.columns;
      step.from = reduces ? links.outer : std::array{links.inner, kNobody};
      step.to = reduces ? std::array{links.inner, kNobody} : links.outer;
      step.is_complete = reduces && is_root;
      if (has_source) {
        step.source = shard_range(request.gives.front(), *cut.cut, cut.gives[self], fragment);
      }
      if (has_target) {
        step.target = shard_range(request.takes.front(), *cut.cut, cut.takes[self], fragment);
      }
    }
  }
  return steps;
}

}  // namespace kernbench::ccl
