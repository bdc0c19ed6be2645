// The values of a tensor as a whole, wherever its shards lie: for what moves them outside of
// simulated time.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/data/value.h"

namespace kernbench::runtime {

// Logical elements [first, first + count), counted row by row, as they are now.  Of a partial
// tensor the sum of its holders' in their order, each addition rounded to the type.
// REQUIRES: the range lies in the tensor, which is on a device
sim::Value load_block(const Tensor::Storage& storage, std::int64_t first, std::int64_t count);

// Writes them, into every copy.  A partial tensor becomes a replicated one first.
// REQUIRES: as load_block(); the value has the tensor's type
void store_block(Tensor::Storage& storage, std::int64_t first, const sim::Value& value);

}  // namespace kernbench::runtime
