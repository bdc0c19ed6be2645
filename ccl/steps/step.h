// The actions of a lane in a collective: a list of steps, each with as many elements as a message
// has.
//
// A step is data, not code, so that the kernel can look ahead: while it waits for the message of
// the present step, it posts the receives and issues the loads of later ones (ADR-0180).

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ccl/core/plan.h"
#include "ccl/steps/slices.h"
#include "runtime/distributed/collective.h"
#include "runtime/distributed/options.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"

namespace kernbench::ccl {

// Shards that steps load from or store to.
struct Shards {
  bool is_taken = false;  // of a block that the call takes, else of one that it gives
  int block = 0;          // in that list
  const Rectangle* rectangle = nullptr;
  int cube = kNobody;  // only the shards of this cube; kNobody: of all

  friend bool operator==(const Shards&, const Shards&) = default;
};

// Elements in each of some shards.
struct ShardRange {
  int shards = kNobody;  // StepList::shards; kNobody: the step has none
  std::int64_t offset = 0;
  std::int64_t pitch = 0;

  bool is_there() const { return shards != kNobody; }
};

// Elements of a value that an earlier step holds for later ones.
struct HeldElements {
  int value = 0;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// A move of a plan with its chunks of one slice.  Its value is the reduction of the messages and
// its own value, which lies at `source` or is held, in this order.  For an average, the elements at
// `source` are first divided by AverageDivisors::before, and the value, if it is complete, by
// AverageDivisors::after.
//
// A kernel passes over its steps once, while all other kernels do so, too: so a step is small, and
// its lists lie in the order of the steps.
struct Step {
  int time = 0;  // steps of equal time belong together
  int move = 0;  // of the plan
  int slice = 0;
  int held = kNobody;       // the number of the value, if later steps use it
  int uses = 0;             // how many will
  std::uint32_t peers = 0;  // StepList::peers: those that it receives from, then those it sends to
  std::uint32_t taken = 0;  // StepList::taken: what it takes of held values
  std::uint16_t taken_count = 0;
  std::uint16_t from_count = 0;
  std::uint16_t to_count = 0;
  bool is_complete = false;  // the value is the reduction over all members
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  ShardRange source;  // the sum, if there are several summands
  ShardRange target;  // all copies

  std::int64_t count() const { return rows * columns; }
};

// The steps of a lane, in the order in which it takes them.
struct StepList {
  std::vector<Step> steps;
  std::vector<int> nodes;  // of the plan, with which it exchanges messages
  std::vector<int> peers;  // of the steps, by index in `nodes`
  std::vector<HeldElements> taken;
  std::vector<Shards> shards;
  int held_count = 0;  // values that steps leave for later ones

  std::span<const int> senders(const Step& step) const {
    return std::span(peers).subspan(step.peers, step.from_count);
  }
  std::span<const int> receivers(const Step& step) const {
    return std::span(peers).subspan(step.peers + step.from_count, step.to_count);
  }
  std::span<const HeldElements> taken_by(const Step& step) const {
    return std::span(taken).subspan(step.taken, step.taken_count);
  }
};

// How many times ahead of the present step receives are posted, and loads are issued.  The news of
// a post must be with its sender when it has the message; both take a latency.
inline constexpr int kPostsAhead = 2;
inline constexpr int kLoadsAhead = 1;

// A lane's ports to and from each node of a plan.
struct NodePorts {
  std::function<tl::Port(int node)> to;
  std::function<tl::Port(int node)> from;
};

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  int member_count = 1;
};

// The kernel of every collective, on a PE of the caller's of `call`.
void run_steps(tl::Context& tl, const StepList& list, const NodePorts& ports,
               const Reduction& reduction, const distributed::CollectiveCall& call);

}  // namespace kernbench::ccl
