// What a lane does in a collective: a list of steps, each with as many elements as one message has.
//
// A step is data, not code, so that the kernel can look ahead: it posts the receives, and issues
// the loads, of the steps to come while it waits for the message of the one at hand (ADR-0121).

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
  const Tensor* tensor = nullptr;  // null: none
  const Slice* slice = nullptr;
  std::int64_t offset = 0;
  std::int64_t pitch = 0;
};

inline constexpr int kNobody = -1;

// The value of a step is the messages of `from` and what lies at `source`, reduced in this order.
// For an average, what lies at `source` is first divided by AverageDivisors::before, and the value,
// if it `is_complete`, by AverageDivisors::after.  It is sent to `to` and stored at `target`. There
// is at least one of `from` and `source`.
struct Step {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::array<int, 2> from = {kNobody, kNobody};  // members
  ShardRange source;                             // of several summands: their sum
  bool is_complete = false;
  std::array<int, 2> to = {kNobody, kNobody};
  ShardRange target;  // all copies

  std::int64_t count() const { return rows * columns; }
};

// Of a lane, the ports to and from each member.
struct MemberPorts {
  std::function<tl::Port(int member)> to;
  std::function<tl::Port(int member)> from;
};

struct Reduction {
  ReduceOp op = ReduceOp::sum;
  int member_count = 1;
};

// Steps whose receives are posted, and whose loads are issued, before the one at hand is done.
// Twice kInFlight: the news of a post must be with the sender when it comes to that step, and it
// has passed on kInFlight pieces then.
inline constexpr int kInFlight = 4;
inline constexpr int kLookAhead = 2 * kInFlight;

// Elements that a step may have, so that a kernel keeps about 1/8 of a PE's scratch: compute
// kernels run beside it.  `summands` are those of a value inside its SIP.
std::int64_t most_step_elements(Bytes tcm, DType dtype, std::size_t summands);

// The kernel of every collective.
void run_steps(tl::Context& tl, std::span<const Step> steps, const MemberPorts& ports,
               const Reduction& reduction);

}  // namespace kernbench::ccl
