#include "ccl/algorithms/packed_trees.h"

#include <algorithm>
#include <tuple>

#include "ccl/core/ways.h"

namespace kernbench::ccl {

namespace {

using Kind = Plan::Kind;

// Equal trees of the shares of a block, as one.
struct Bundle {
  const Route* route;
  ChunkRange chunks;
};

bool has_targets(Kind kind) {
  return kind == Kind::all_gather || kind == Kind::reduce_scatter;
}

std::vector<Bundle> make_bundles(const Packing& packing, bool has_targets) {
  std::vector<const Route*> routes;
  for (const Route& route : packing.routes) routes.push_back(&route);
  const auto key = [](const Route* route) { return std::tie(route->root, route->up, route->down); };
  std::ranges::stable_sort(routes, [&](auto* a, auto* b) { return key(a) < key(b); });
  std::vector<Bundle> bundles;
  for (const Route* route : routes) {
    const bool is_other_block =
        has_targets && !bundles.empty() && bundles.back().route->root != route->root;
    const int begin = bundles.empty() || is_other_block ? 0 : bundles.back().chunks.end;
    if (!bundles.empty() && key(bundles.back().route) == key(route)) {
      ++bundles.back().chunks.end;
    } else {
      bundles.push_back({route, {begin, begin + 1}});
    }
  }
  return bundles;
}

int compute_depth(const std::vector<int>& inner) {
  int depth = 0;
  for (std::size_t member = 0; member < inner.size(); ++member) {
    depth = std::max(depth, branch_of(inner, static_cast<int>(member)).distance);
  }
  return depth;
}

// The most messages and values of a member at a time: slices that follow each other have all moves
// at once.
int compute_width(const std::vector<Bundle>& bundles, int size) {
  int most = 1;
  for (int member = 0; member < size; ++member) {
    int width = 0;
    for (const Bundle& bundle : bundles) {
      const Branch up = branch_of(bundle.route->up, member);
      width += std::max(1, static_cast<int>(up.outer.size()));
      const bool has_both = !bundle.route->up.empty() && !bundle.route->down.empty();
      width += has_both && up.inner != kNobody ? 1 : 0;
    }
    most = std::max(most, width);
  }
  return most;
}

}  // namespace

void plan_packed_trees(const PlanRequest& request, Plan& plan) {
  const Packing& packing = request.shape.ways->packing(request.kind, request.root);
  const std::vector<Bundle> bundles = make_bundles(packing, has_targets(request.kind));
  int up = 0;
  int down = 0;
  for (const Bundle& bundle : bundles) {
    up = std::max(up, compute_depth(bundle.route->up));
    down = std::max(down, compute_depth(bundle.route->down));
  }
  plan.chunk_count = packing.chunk_count;
  plan.length = up + down + 1;
  plan.width = compute_width(bundles, request.shape.size);
  plan.slices_at_once = 1;
  plan.slice_interval = 1;
  for (const Bundle& bundle : bundles) {
    const Branch to_root = branch_of(bundle.route->up, request.self);
    const Branch from_root = branch_of(bundle.route->down, request.self);
    if (request.kind == Kind::broadcast) {
      plan.broadcast(bundle.chunks, from_root, 0);
    } else if (request.kind == Kind::reduce) {
      plan.reduce(bundle.chunks, to_root, up);
    } else {
      plan.along(bundle.route->root, bundle.chunks, to_root, from_root,
                 compute_depth(bundle.route->up));
    }
  }
}

std::string_view misfit_of_packed(const GroupShape& shape) {
  const bool fits = shape.ways != nullptr && shape.size <= Ways::kMostMembers;
  return fits ? "" : "it needs 2 to 8 SIPs of a grid";
}

}  // namespace kernbench::ccl
