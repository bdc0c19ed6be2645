// A call of a collective: its kind, and the rank's input blocks (gives) and output blocks (takes).

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/distributed/options.h"
#include "runtime/guards/flight_recorder.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/tensor_options.h"
#include "sim_engine/values/compute_ops.h"

namespace kernbench::distributed {

// Elements [first, first + count) of a tensor, numbered row by row over the whole tensor.
struct Block {
  Tensor tensor;
  std::int64_t first = 0;
  std::int64_t count = 0;
};

inline Block whole(const Tensor& tensor) {
  return {.tensor = tensor, .first = 0, .count = tensor.numel()};
}

struct Group;

// One rank's call of a collective: what ranks compare, what a backend runs, and what reports show.
// A list of blocks has one block, or one for each member by group rank:
//
//   kind            gives     takes       members[r].takes[s] becomes
//   all_reduce      1         1, the same the reduction over all members' gives[0]
//   broadcast       1         1, the same the root's gives[0]
//   reduce          1         1, the same the reduction, on the root; elsewhere it stays
//   all_gather      1         each        members[s].gives[0]
//   reduce_scatter  each      1           the reduction over all members' gives[r]
//   all_to_all      each      each        members[s].gives[r]
//   gather          1         each, root  members[s].gives[0], on the root
//   scatter         each,root 1           the root's gives[r]
//   barrier         0         0
struct CollectiveCall {
  // Its function, place, group and number there, and its tensor, reduction and root (a global
  // rank), as the flight recorder keeps them.
  runtime::FlightEvent event = {};

  CollectiveKind kind = CollectiveKind::barrier;
  std::vector<Block> gives = {};
  std::vector<Block> takes = {};
  ReduceOp op = ReduceOp::sum;
  Reproducible reproducible = Reproducible::run;  // of sums that round; else run
  int root = 0;                                   // group rank

  Group* group = nullptr;       // null: a call that is no rank's, as of a bound
  int rank = 0;                 // the caller's in the group
  bool is_for_all = false;      // one driver calls for all members, which have a shard each
  std::uint64_t operation = 0;  // KernelResult::operation, the same on all ranks

  DPPolicy placement = {};        // of the tensor
  bool is_list = false;           // of equal tensors; their shapes may differ from rank to rank
  std::vector<int> members = {};  // of the group that a new_group makes
  std::int64_t timeout_ms = 0;    // of a monitored_barrier, as is the next one
  bool wait_all_ranks = false;

  // Its number in its group: 0, 1, ...
  std::uint64_t sequence() const { return static_cast<std::uint64_t>(event.sequence); }
};

// The least level of reductions: KERNBENCH_BATCH_INVARIANT=1, KERNBENCH_WORLD_INVARIANT=1 and
// KERNBENCH_RANK_INVARIANT=1 raise it.  Throws UsageError KB-U013 for another value.
Reproducible least_reproducible_by_environment();

// Returns a list's block for or from a member, or the single block itself; nullptr if it is empty.
inline const Block* block_for(const std::vector<Block>& blocks, int member) {
  if (blocks.empty()) return nullptr;
  return blocks.size() == 1 ? &blocks.front() : &blocks[static_cast<std::size_t>(member)];
}

// The tensor that every rank has, which ranks compare: the input; the output where inputs are a
// list.
// REQUIRES: the kind has tensors
inline const Tensor& compared_tensor(const CollectiveCall& call) {
  const CollectiveTraits& traits = traits_of(call.kind);
  const bool has_one_output = traits.has_list() && traits.takes == BlockCount::one;
  return (has_one_output ? call.takes : call.gives).front().tensor;
}

// True if the member's output is written: a reduce writes on the root alone.
inline bool writes(const CollectiveCall& call, int member) {
  return traits_of(call.kind).root != Root::taker || call.root == member;
}

// True if the caller's output changes.  The root of a broadcast has the values already, but a
// partial placement becomes replicated there too.
inline bool changes(const CollectiveCall& call) {
  if (call.is_for_all) return true;
  const CollectiveTraits& traits = traits_of(call.kind);
  const bool has_it = traits.is_in_place() && traits.root == Root::giver && call.root == call.rank;
  return has_it ? is_partial(call.placement) : writes(call, call.rank);
}

// The operation that combines two summands; of an average, the sum.
sim::MathOp to_math_op(ReduceOp op);

}  // namespace kernbench::distributed
