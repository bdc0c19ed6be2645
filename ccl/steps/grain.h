// Decides how finely the blocks of a collective are cut: how much a message carries, and how many
// messages of a chunk follow each other.

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
struct Grain {
  std::int64_t most = 1;            // elements of a fragment
  std::int64_t most_dealt = 1;      // elements that a class has where it has one of several
  std::int64_t most_of_colour = 1;  // elements of a fragment, where a lane has one colour alone
  int colours = 1;                  // Plan::colours
  int units = 1;                    // that it will be cut into
  // Values of its parts are put together again, so parts must be consecutive elements.
  bool is_joined = false;
  bool on_one_cube = false;  // cut_in_fragments()

  friend auto operator<=>(const Grain&, const Grain&) = default;
};

// The inputs of the choice of a call's grain, besides its plan.
struct GrainInput {
  const Topology& topology;
  DType dtype = DType::f32;
  std::int64_t count = 0;    // elements of a block
  std::int64_t lanes = 1;    // that have them
  std::size_t summands = 1;  // of a value inside its SIP, or its cube
  std::int64_t kept = 0;     // most_units_kept() of any node; 0: not known
  int cubes = 1;             // that share a tree
  bool are_pes = false;      // members are PEs, else SIPs
  Bytes slot = 0;            // messages go through slots of this size; 0: they do not
  Bytes least_part = 1;      // parts that begin together have so many bytes
};

Grain find_grain(const Plan& plan, const GrainInput& input);

// Returns the most elements that a message of a plan may have, so that a kernel keeps about a third
// of a PE's scratch, or Topology::Communication::scratch if that is less: compute kernels run
// beside it.  `width` moves come at a time: Plan::width, or fewer in a lane that has not all of
// them.  `summands` is the number of summands of a value inside its SIP.
std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   int width, std::size_t summands);
// The same where it is known how many units any node keeps at a time in such a lane.
std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::int64_t kept);

// A message is sent on when all of it has come, so a chunk of more than two least parts goes in as
// many as begin together (Plan::window).  Less than 512 B take no longer than their commands.
constexpr Bytes least_part_of(Bytes slot) {
  return std::max<Bytes>(slot / 32, 512);
}

// The same where parts lead to messages that go through no slots, while one would go through them:
// in all steps of a plan a half of a chunk is then to save what the news of a receive cost.
Bytes least_part_without_slots(const Topology& topology, const Plan& plan);

// Plan::interval, or half of the length.
inline int window_interval(const Plan& plan) {
  return plan.interval > 0 ? plan.interval : std::max((plan.length + 1) / 2, 1);
}

// True if parts follow each other one by one from member to member.
bool is_piped(const Plan& plan);
// Messages have at least this many bytes.
inline constexpr Bytes kLeastOfPipe = 1 << 10;

}  // namespace kernbench::ccl
