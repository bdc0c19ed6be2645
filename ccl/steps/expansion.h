// Expands a plan to steps: every move becomes a step for every slice, on each lane.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "ccl/steps/cut_cache.h"
#include "ccl/steps/step.h"

namespace kernbench::ccl {

// The block that a chunk is of, as one node has it.
struct ChunkPlace {
  std::shared_ptr<const Cut> cut = nullptr;  // null: there is no such block
  int source = kNobody;   // the index of the block among those that the call gives
  int source_layout = 0;  // in the cut
  int target = kNobody;   // and takes
  int target_layout = 0;
  const Rectangle* rectangle = nullptr;  // if every node has a rectangle of its own

  friend bool operator==(const ChunkPlace&, const ChunkPlace&) = default;
};
using PlaceOf = std::function<ChunkPlace(const ChunkRange&)>;

using LaneSteps = std::map<Lane, StepList>;

// The cubes whose shards a node reads and writes; kNobody: all.
struct CubeFilter {
  int source = kNobody;
  int target = kNobody;
};

// How the slices of a lane follow each other: by Plan::slice_interval, so that a slice waits at no
// member for one before it; or each after all moves of the one before, for which none waits if
// links take longer for a slice of all lanes than it takes to go all the way.
enum class SliceOrder : std::uint8_t { interleaved, in_sequence };

// Returns the steps of a plan.  Their shards refer to cuts, which must outlive them.
LaneSteps expand(const Plan& plan, const PlaceOf& find_place, const CubeFilter& cubes = {},
                 SliceOrder order = SliceOrder::interleaved);

}  // namespace kernbench::ccl
