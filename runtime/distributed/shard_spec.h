// Describes the whole parameter of which a rank has a shard, as torch does in a DTensor.

#pragma once

#include <cstdint>
#include <string>

#include "runtime/distributed/process_group.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::distributed {

// Ranks of the group have consecutive rows of dimension 0, each as many but for the last ones.
struct ShardSpec {
  std::string name;            // of the parameter
  Tensor parameter;            // the whole one, which has elements while it is gathered
  std::int64_t first_row = 0;  // of this rank's
  Tensor padded;  // the shard, and zeros behind it where it has fewer rows; none if PEs share them
  ProcessGroup group;
};

}  // namespace kernbench::distributed
