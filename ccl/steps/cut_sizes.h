// Decides how finely the blocks of a collective are cut: how much a message carries, and how many
// messages of a chunk follow each other.
//
//     block    | elements of a tensor, as the caller names them                             |
//     slices   | lane 0           | lane 1           | lane 0           | lane 1            |
//     chunks   | 0  | 1  | 2  | 3 | 0  | 1  | 2  | 3 | 0  | 1  | 2  | 3 | 0  | 1  | 2  | 3  |
//
// A slice lies in the same shards of all tensors, and one lane moves it; what a message cannot
// carry is cut into several slices, which follow each other.  A plan's chunks are equal pieces of
// each slice.  A message carries a range of chunks of one slice.

#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "ccl/core/plan.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::ccl {

// The sizes into which blocks are cut.
struct CutSizes {
  std::int64_t most = 1;           // elements of a slice
  std::int64_t most_of_small = 1;  // elements for which a lane takes chunks whole (channel_count())
  std::int64_t most_of_channel = 1;  // elements of a slice, where a lane has one channel alone
  int channels = 1;                  // Plan::channels
  int chunk_count = 1;               // Plan::chunk_count
  // All channels share a member's port to a switch, so it is as busy whichever lanes they have.
  bool share_ports = false;
  // Earlier values of a slice are put together again, so it must be consecutive elements.
  bool is_joined = false;
  bool on_one_cube = false;  // cut_into_slices()
  // All chunks of a slice have one size, and what is left over of it is not moved, unless that is
  // much.  Lanes have the plan's channels alone, so that each has a share of every member's chunks.
  bool has_equal_chunks = false;

  friend auto operator<=>(const CutSizes&, const CutSizes&) = default;
};

// The inputs of the choice of a call's sizes, besides its plan.
struct CutInput {
  const Topology& topology;
  DType dtype = DType::f32;
  std::int64_t count = 0;    // elements of a block
  std::int64_t lanes = 1;    // that have them
  std::size_t summands = 1;  // of a value inside its SIP, or its cube
  std::int64_t kept = 0;     // PlanCache::most_chunks_kept(); 0: not known
  int cubes = 1;             // that share a tree
  bool are_pes = false;      // members are PEs, else SIPs
  Bytes slot = 0;            // messages go through slots of this size; 0: they do not
  Bytes least = 1;           // bytes of each of several slices that begin together
  bool has_equal_chunks = false;
};

// Returns the rate at which HBM gives what the lanes of a SIP send, and takes what they receive.
Bandwidth find_hbm_rate(const Topology& topology, std::int64_t lanes);

CutSizes find_cut_sizes(const Plan& plan, const CutInput& input);

// Returns the most elements that a message of a plan may have, so that a kernel keeps about a third
// of a PE's scratch, or Topology::Communication::scratch if that is less: compute kernels run
// beside it.  `width` moves come at a time: Plan::width, or fewer in a lane that has not all of
// them.  `summands` is the number of summands of a value inside its SIP.
std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   int width, std::size_t summands);
// The same where it is known how many chunks any node keeps at a time in such a lane.
std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::int64_t kept);

// A message is sent on when all of it has come, so several slices begin together
// (Plan::slices_at_once) if each has at least so many bytes.  Less than 512 B take no longer than
// their commands.
constexpr Bytes least_slice_of(Bytes slot) {
  return std::max<Bytes>(slot / 32, 512);
}

// The same where several slices need more slots than there are, while one slice would do with them:
// a receive without a slot is posted, and the news of that reach the sender later.  In all steps of
// a plan, half of a chunk is to save what that costs.
Bytes least_slice_without_slots(const Topology& topology, const Plan& plan);

// Returns true if no sender waits for a slot: a queue of `depth` has as many as messages of a lane
// come in two times of the plan.  The lane's slices begin together and share `channels` channels.
bool slots_suffice(const Plan& plan, std::int64_t slices, int channels, int depth);

// The times from when slices begin to when the next ones do: Plan::slice_interval, or half of the
// length.
inline int slice_interval(const Plan& plan) {
  return plan.slice_interval > 0 ? plan.slice_interval : std::max((plan.length + 1) / 2, 1);
}

// True if slices follow each other one by one from member to member.
bool is_piped(const Plan& plan);
// Messages of such a plan have at least this many bytes.
inline constexpr Bytes kLeastOfPipe = 1 << 10;

}  // namespace kernbench::ccl
