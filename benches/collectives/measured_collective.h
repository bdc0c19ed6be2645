// One collective, driven as a user drives it, timed and checked.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/collectives/exact_blocks.h"
#include "ccl/core/config.h"
#include "runtime/distributed/collective.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::collectives {

struct MeasuredInput {
  BlocksInput blocks;     // ranks and root are those of the group
  bool in_place = false;  // a rank's block lies where its result will (nccl-tests)
  std::string backend = "ahbm";
  std::vector<int> members;  // global ranks, by group rank; empty: all
  DPPolicy placement;        // of every tensor; partial (all_reduce): a block on each holder
  bool has_theory = true;    // bounds and models are computed too, and the algorithm is named
  int repetitions = 1;       // one after the other; their mean time counts
};

struct Measurement {
  Time time{0};                          // from when the first rank has issued its call until all
                                         // ranks know that it is done; nothing without an algorithm
  Time critical{0};                      // the slowest PE's execution time
  Time joint{0};                         // from the last PE's begin to the last one's end
  std::optional<std::string> algorithm;  // nullopt: not on a device, so not timed
  std::string why;                       // auto: the other algorithms tried
  std::optional<Time> lower_bound;       // of one repetition; nullopt if there is no algorithm
  std::optional<Time> memory_bound;      // likewise, of the busiest HBM slice
  std::optional<Time> model;             // of one repetition; nullopt of a kernel
  std::string faster;                    // another algorithm that takes less time by the model
  std::optional<Time> faster_model;      // its time, if there is one
  std::string form;                   // the algorithm's time in words; a and b are alpha and beta
  std::optional<std::int64_t> wrong;  // elements; nullopt: the context has no data
  sim::Waits waits;                   // of the last repetition: EngineView::longest_waits()
};

// The default placement for a collective of the config's algorithm: on one PE if one PE of each SIP
// takes part; one summand per cube, cut over its PEs, if the algorithm adds inside the SIP; else
// the tensor is cut over all PEs.
DPPolicy default_placement(const ccl::Config& config);

// The setting `world_size`, and the function of BenchInfo::configure that applies it beside
// `algorithm`: so many PEs are the ranks (ADR-0024).
SettingInfo world_size_setting();
ccl::Config choose_algorithm_and_ranks(const Bench& bench);

// An input, without its count, for the collective of the config's algorithm: an all_reduce or a
// shift.  Throws CollectiveError KB-C012 for any other one.
MeasuredInput input_for(const ccl::Config& config, const Topology& topology);

// Fills in the blocks of ExactBlocks and runs the collective: init_process_group(), new_group(),
// spawn() of a worker that calls it; without spawn() if the context's ccl.yaml makes PEs the ranks;
// by a direct launch for a shift.  Blocks are rows {1, count}: a tensor for each, but all_to_all,
// which is all_to_all_single, has one tensor {ranks, count}.  Throws InternalError if the time is
// less than the lower bound.  REQUIRES: torch.distributed supports the collective in this form
// (CollectiveSpec); with data one repetition, as a second one would begin with the results of the
// first
Measurement measure(RuntimeContext& torch, const MeasuredInput& input);

// The same for groups without a common member, all of which call at once; their inputs differ in
// `members` alone.  Each group's time is its own: from its first call to its last return.
// REQUIRES: every rank is in one of several groups
std::vector<Measurement> measure_at_once(RuntimeContext& torch,
                                         std::span<const MeasuredInput> inputs);

}  // namespace kernbench::benches::collectives
