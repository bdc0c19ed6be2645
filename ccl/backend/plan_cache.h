// Plans of a group's collectives, made once for all calls.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ccl/core/plan.h"
#include "ccl/steps/step_cache.h"
#include "runtime/distributed/collective.h"

namespace kernbench::ccl {

// Plans that do not depend on where tensors lie, made once for all calls of a group, and the steps
// that come of them.
class PlanCache {
 public:
  // A plan, and the blocks that its chunks are of.
  struct Planned {
    std::shared_ptr<const Plan> plan;
    std::vector<ChunkRange> blocks;  // the first chunk of each
  };

  explicit PlanCache(const GroupShape& shape) : shape_(shape) {}

  const GroupShape& shape() const { return shape_; }
  const Planned& plan(AlgorithmPlan algorithm, distributed::CollectiveKind kind, int root, int node,
                      const CubeTree& cubes);
  // The most chunks that any node of a plan keeps in scratch; of more than 128 nodes 16 and the
  // root's are asked.  0 if there is one member.
  std::int64_t most_chunks_kept(AlgorithmPlan algorithm, distributed::CollectiveKind kind, int root,
                                const CubeTree& cubes, std::size_t summands);
  StepCache& steps() { return steps_; }

 private:
  using Key = std::tuple<AlgorithmPlan, distributed::CollectiveKind, int, int, int, bool, Root>;

  const GroupShape shape_;
  std::map<Key, Planned> plans_;
  std::map<std::pair<Key, std::size_t>, std::int64_t> kept_;  // of node 0's key, by summands
  StepCache steps_;
};

}  // namespace kernbench::ccl
