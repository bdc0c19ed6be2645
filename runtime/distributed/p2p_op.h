// torch.distributed.P2POp, a message of batch_isend_irecv().

#pragma once

#include <cstdint>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed {

// The direction of a P2POp.
enum class PointToPoint : std::uint8_t { isend, irecv };

// One message of batch_isend_irecv().  `peer` is a global rank.
struct P2POp {
  PointToPoint op = PointToPoint::isend;
  Tensor tensor = {};
  int peer = 0;
  ProcessGroup group = {};
  int tag = 0;
};

}  // namespace kernbench::distributed
