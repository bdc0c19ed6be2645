// The actions of a lane in a collective: a list of steps, each with as many elements as a message
// has.
//
// A step is data, not code, so that the kernel can look ahead: while it waits for the message of
// the present step, it posts the receives and issues the loads of later ones (ADR-0121).

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ccl/core/plan.h"
#include "ccl/steps/fragments.h"
#include "runtime/distributed/reduce_op.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tl/tl.h"

namespace kernbench::ccl {

// Elements in the shards of a slice.
struct ShardRange {
  const Tensor* tensor = nullptr;  // null: the step has none
  const Slice* slice = nullptr;
  std::int64_t offset = 0;
  std::int64_t pitch = 0;
  int cube = kNobody;  // only the shards of this cube; kNobody: of all
};

// A value that an earlier step has left for later ones.
struct HeldId {
  int fragment = 0;
  int move = 0;

  friend auto operator<=>(const HeldId&, const HeldId&) = default;
};
struct HeldPart {
  HeldId id;
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// A move of a plan with one fragment of a chunk.  Its value is the reduction of the messages and
// its own value, which lies at `source` or is held, in this order.  For an average, the elements at
// `source` are first divided by AverageDivisors::before, and the value, if the move is complete, by
// AverageDivisors::after.
struct Step {
  const Move* move = nullptr;
  int time = 0;  // steps of equal time belong together
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  ShardRange source;  // the sum, if there are several summands
  std::vector<HeldPart> parts;
  ShardRange target;  // all copies
  HeldId id;
  int uses = 0;  // how many later steps use the value

  std::int64_t count() const { return rows * columns; }
};

// A lane's ports to and from each node of a plan.
struct NodePort {
  tl::Port port;
  bool has_slots = false;  // else messages go straight to posted receives
};
struct NodePorts {
  std::function<NodePort(int node)> to;
  std::function<NodePort(int node)> from;
};

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  int member_count = 1;
};

// Returns the most elements that a message of a plan may have, so that a kernel keeps about a third
// of a PE's scratch, or Topology::Communication::scratch if that is less: compute kernels run
// beside it.  `summands` is the number of summands of a value inside its SIP.
std::int64_t most_message_elements(const Topology& topology, DType dtype, const Plan& plan,
                                   std::size_t summands);

// The kernel of every collective.
void run_steps(tl::Context& tl, std::span<const Step> steps, const NodePorts& ports,
               const Reduction& reduction);

}  // namespace kernbench::ccl
