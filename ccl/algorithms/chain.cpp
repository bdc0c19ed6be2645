#include "ccl/algorithms/chain.h"

namespace kernbench::ccl {

namespace {

// How many members are reached forwards if each is reached the shorter way over the ring of all
// SIPs, or, if that does not close, on its side.
int nearest_ahead(const GroupShape& shape, int root) {
  const auto node_at = [&](int position) {
    return shape.nodes[static_cast<std::size_t>(position % shape.size)];
  };
  int ahead = 0;
  for (int distance = 1; distance < shape.size; ++distance) {
    const int node = node_at(root + distance);
    const int way = (node - node_at(root) + shape.node_count) % shape.node_count;
    ahead += shape.closes ? way <= shape.node_count / 2 : node > node_at(root);
  }
  return ahead;
}

void add_chain(const PlanRequest& request, Plan& plan, const ChunkRange& chunks, int ahead,
               int hop = 1) {
  const Row& ring = request.shape.ring;
  Branch branch =
      ring.branch(ring.position_of(request.self), ring.position_of(request.root), ahead);
  branch.distance *= hop;
  request.kind == Plan::Kind::reduce ? plan.reduce(chunks, branch, plan.length - 1)
                                     : plan.broadcast(chunks, branch, 0);
}

}  // namespace

void plan_chain(const PlanRequest& request, Plan& plan) {
  const GroupShape& shape = request.shape;
  const int ahead = nearest_ahead(shape, shape.ring.position_of(request.root));
  plan.length = std::max(ahead, shape.size - 1 - ahead) + 1;
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  add_chain(request, plan, {}, ahead);
}

void plan_half_chains(const PlanRequest& request, Plan& plan) {
  const int last = request.shape.size - 1;
  plan.chunk_count = 2;
  plan.length = kTimesOfHop * last + 1;
  // Slices follow each other one by one: where both halves come by, none waits for all of the
  // other.
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  plan.width = 2;
  // Where the halves have lanes of their own, neither waits for the other at all.
  plan.channels = 2;
  add_chain(request, plan, {0, 1}, last, kTimesOfHop);
  add_chain(request, plan, {1, 2}, 0, kTimesOfHop);
}

}  // namespace kernbench::ccl
