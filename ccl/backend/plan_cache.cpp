#include "ccl/backend/plan_cache.h"

#include <algorithm>
#include <set>

#include "ccl/algorithms/over_cubes.h"
#include "ccl/core/sample.h"
#include "ccl/steps/scratch_use.h"

namespace kernbench::ccl {

using distributed::CollectiveKind;

namespace {

// The different blocks of a plan, each by its first chunk.
std::vector<ChunkRange> list_blocks(const Plan& plan) {
  std::set<ChunkRange> blocks;
  for (const Move& move : plan.moves) blocks.insert({0, 1, move.chunks.giver, move.chunks.taker});
  return {blocks.begin(), blocks.end()};
}

}  // namespace

const PlanCache::Planned& PlanCache::plan(AlgorithmPlan algorithm, CollectiveKind kind, int root,
                                          int node, const CubeTree& cubes) {
  Planned& known = plans_[{algorithm, kind, root, node, cubes.count, cubes.has_sums, cubes.root}];
  if (known.plan == nullptr) {
    auto plan = std::make_shared<Plan>(kind, node / cubes.count);
    const PlanRequest request{shape_, kind, root, node, cubes};
    cubes.count > 1 ? plan_over_cubes(algorithm, request, *plan) : algorithm(request, *plan);
    known = {plan, list_blocks(*plan)};
  }
  return known;
}

std::int64_t PlanCache::most_chunks_kept(AlgorithmPlan algorithm, CollectiveKind kind, int root,
                                         const CubeTree& cubes, std::size_t summands) {
  constexpr int kMostNodes = 128;
  constexpr int kOfMany = 16;
  // Larger messages pay off on the links between SIPs, of which a group of one SIP uses none.
  if (shape_.size == 1) return 0;
  const Key key{algorithm, kind, root, 0, cubes.count, cubes.has_sums, cubes.root};
  const auto [known, is_new] = kept_.try_emplace({key, summands});
  if (!is_new) return known->second;
  const int nodes = shape_.size * cubes.count;
  std::vector<int> asked = sample(nodes, nodes > kMostNodes ? kOfMany : nodes);
  for (int i = 0; i < cubes.count; ++i) asked.push_back(root * cubes.count + i);  // may keep most
  for (const int node : asked) {
    const Plan& plan_of_node = *plan(algorithm, kind, root, node, cubes).plan;
    if (plan_of_node.moves.empty()) continue;
    known->second = std::max(known->second, ccl::most_chunks_kept(plan_of_node, summands));
  }
  return known->second;
}

}  // namespace kernbench::ccl
