// The actions of a lane in a collective: a list of steps, each with as many elements as a message
// has.
//
// A step is data, not code, so that the kernel can look ahead: while it waits for the message of
// the present step, it posts the receives and issues the loads of later ones (ADR-0121).

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "ccl/collectives/fragments.h"
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
};

inline constexpr int kNobody = -1;

// The value of a step is the reduction of the messages from `from` and the elements at `source`,
// in this order.  For an average, the elements at `source` are first divided by
// AverageDivisors::before, and the value, if it `is_complete`, by AverageDivisors::after.  The
// value is sent to `to` and stored at `target`.
// REQUIRES: `from` or `source` is set
struct Step {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::array<int, 2> from = {kNobody, kNobody};  // members
  ShardRange source;                             // the sum, if there are several summands
  bool is_complete = false;
  std::array<int, 2> to = {kNobody, kNobody};
  ShardRange target;  // all copies

  std::int64_t count() const { return rows * columns; }
};

// A lane's ports to and from each member.
struct MemberPorts {
  std::function<tl::Port(int member)> to;
  std::function<tl::Port(int member)> from;
};

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  int member_count = 1;
};

// The number of steps whose receives are posted, and loads issued, before the present step is
// done.  It is twice kInFlight: the sender must know of a post when it comes to that step, and by
// then it has passed on kInFlight pieces.
inline constexpr int kInFlight = 4;
inline constexpr int kLookAhead = 2 * kInFlight;

// Returns the most elements that a step may have, so that a kernel keeps about 1/8 of a PE's
// scratch: compute kernels run beside it.  `summands` is the number of summands of a value inside
// its SIP.
std::int64_t most_step_elements(Bytes tcm, DType dtype, std::size_t summands);

// The kernel of every collective.
void run_steps(tl::Context& tl, std::span<const Step> steps, const MemberPorts& ports,
               const Reduction& reduction);

}  // namespace kernbench::ccl
