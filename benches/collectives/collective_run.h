// One collective, driven as a user drives it, timed and checked.

#pragma once

#include <cstdint>

#include "benches/collectives/collective_table.h"
#include "ccl/config.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches {

struct CollectiveInput {
  std::int64_t n_elem = 0;  // of each rank's tensor {1, n_elem}; with rank = PE, of each PE's shard
  DType dtype = DType::f16;
  DPPolicy placement;  // of a rank's tensor
  std::uint64_t seed = 0;
};

// The default placement of the summands: replicated if one PE of each SIP takes part; one summand
// per cube, cut over its PEs, if the algorithm adds inside the SIP; else the tensor is cut over all
// PEs.
DPPolicy default_placement(const ccl::Config& config);

// Fills in summands and runs the config's algorithm once: init_process_group(), then spawn() of a
// worker that calls all_reduce(); without spawn() if ranks are PEs; by a direct launch for a shift.
// Throws CollectiveError KB-C012 for any other collective.  REQUIRES: the context was made with
// `config`.  Summands are small integers, so that sums are exact in any order and == decides.
CollectiveRow run_collective(RuntimeContext& torch, const ccl::Config& config,
                             const CollectiveInput& input);

}  // namespace kernbench::benches
