// Reads and writes elements of a whole tensor, wherever its shards lie, outside of simulated time.

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/values/value.h"

namespace kernbench::runtime {

// Returns logical elements [first, first + count), numbered row by row, as they are now.  A
// partial tensor gives the sum of its holders' elements in their order; each addition rounds to
// the type.
// REQUIRES: the range lies in the tensor, which is on a device
sim::Value load_block(const Tensor::Storage& storage, std::int64_t first, std::int64_t count);

// Writes the value to these elements in every copy.  A partial tensor becomes replicated first.
// REQUIRES: as load_block(); the value has the tensor's type
void store_block(Tensor::Storage& storage, std::int64_t first, const sim::Value& value);

}  // namespace kernbench::runtime
