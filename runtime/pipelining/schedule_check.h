// The walk through a schedule's lists of actions before any of them runs.

#pragma once

#include <vector>

#include "runtime/pipelining/action.h"

namespace kernbench::distributed::pipelining {

// The walk finds these.
struct CheckedSchedule {
  int stages = 0;
  std::vector<int> rank_of_stage;
  // Forwards whose backward is still to come, at most: of each stage, and of a rank's stages
  // together.
  std::vector<int> peaks;
  std::vector<int> peaks_of_ranks;
  // Backwards for the input whose half for the weights is still to come, at most, on each rank.
  std::vector<int> peaks_of_weights;
};

// Throws CollectiveError KB-C024 if a stage does not run forward and backward of each micro-batch
// once, on one rank, the latter as a whole or in two halves, or sends or receives what its
// neighbour does not receive or send; and DeadlockError KB-D005, with the actions that wait for
// each other, if the ranks would hang. Receives and sends begin in the order of their list and do
// not hold it up; a computation waits for what it needs.
CheckedSchedule check_schedule(const ActionLists& lists, int microbatches);

}  // namespace kernbench::distributed::pipelining
