// One collective of torch.distributed, driven as a user drives it, timed and checked.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "benches/collectives/exact_blocks.h"
#include "runtime/distributed/collective.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches {

// The collective that torch.distributed runs for it.
distributed::CollectiveKind kind_of(MeasuredCollective collective);

struct MeasuredInput {
  BlocksInput blocks;     // ranks and root are those of the group
  bool in_place = false;  // a rank's block lies where its result will (nccl-tests)
  std::string backend = "ahbm";
  std::vector<int> members;  // global ranks, by group rank; empty: all
  DPPolicy placement;        // of every tensor
  int repetitions = 1;       // one after the other; their mean time counts
};

struct Measurement {
  Time time{0};                          // from the first rank's call to the last rank's return;
                                         // without an algorithm it means nothing
  std::optional<std::string> algorithm;  // nullopt: not on a device, so not timed
  std::optional<Time> lower_bound;       // of one repetition; nullopt likewise
  std::optional<std::int64_t> wrong;     // elements; nullopt: the context has no data
};

// Fills in the blocks of ExactBlocks and runs the collective: init_process_group(), new_group(),
// spawn() of a worker that calls it.  Blocks are rows {1, count}: a tensor for each, but
// all_to_all, which is all_to_all_single, has one tensor {ranks, count}. Throws InternalError if
// the time is less than the lower bound.  REQUIRES: torch.distributed supports the collective in
// this form (CollectiveSpec); with data one repetition, as a second one would begin with the
// results of the first
Measurement measure(RuntimeContext& torch, const MeasuredInput& input);

}  // namespace kernbench::benches
