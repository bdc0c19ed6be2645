// From a plan to steps: every move, for every fragment of its chunk, on each lane.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ccl/steps/cut_cache.h"
#include "ccl/steps/step.h"

namespace kernbench::ccl {

// The block that a chunk is of, as one node has it.
struct ChunkPlace {
  std::shared_ptr<const Cut> cut;  // null: there is no such block
  const distributed::Block* source = nullptr;
  int source_layout = 0;  // in the cut
  const distributed::Block* target = nullptr;
  int target_layout = 0;
  const Slice* slice = nullptr;  // if every node has a slice of its own
};
using PlaceOf = std::function<ChunkPlace(const Chunk&)>;

using LaneSteps = std::map<Lane, std::vector<Step>>;

// Returns the steps of a plan, which must outlive them.  If `cube` is not kNobody, the node reads
// and writes the shards of that cube alone.
LaneSteps expand(const Plan& plan, const PlaceOf& place_of, int cube = kNobody);

}  // namespace kernbench::ccl
