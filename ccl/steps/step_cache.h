// Caches the steps of a group's nodes, for calls whose tensors lie alike.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ccl/steps/expansion.h"

namespace kernbench::ccl {

// Steps refer to blocks by their numbers in the call, so they serve other tensors, too.
class StepCache {
 public:
  // A node's steps depend on these alone.
  struct Key {
    std::shared_ptr<const Plan> plan;
    SliceOrder order = SliceOrder::interleaved;
    std::vector<ChunkPlace> places;  // of all blocks of the plan; they keep the cuts

    friend bool operator==(const Key&, const Key&) = default;
  };

  // Returns the node's steps of equal key, which `make` returns if it has none.
  std::shared_ptr<const LaneSteps> steps(int node, Key key, const std::function<LaneSteps()>& make);

 private:
  struct Entry {
    Key key;
    std::shared_ptr<const LaneSteps> steps;
    std::size_t size = 0;  // of all lanes
  };

  std::map<int, std::vector<Entry>> of_nodes_;  // the latest last; looked up, never listed
};

}  // namespace kernbench::ccl
