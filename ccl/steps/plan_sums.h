// Adds up a plan by names: which sum each member stores of each chunk, if it begins with its own
// summands.  No time passes, and no tensor is read.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ccl/core/plan.h"
#include "ccl/core/sum_trees.h"

namespace kernbench::ccl {

// The sum that each node stores of a chunk; SumTrees::kNone: it stores none.
using SumsOfNodes = std::vector<SumTrees::Tree>;
// By the member whose block it is (ChunkRange::taker), and the chunk.
using SumsOfPlan = std::map<std::pair<int, int>, SumsOfNodes>;

// `plans` are those of all nodes of a reduction; `own` returns the sum that a node begins with.
SumsOfPlan add_up(const std::vector<std::shared_ptr<const Plan>>& plans,
                  const std::function<SumTrees::Tree(int node)>& own, SumTrees& trees);

}  // namespace kernbench::ccl
