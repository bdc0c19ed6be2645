// Copies from the host into shards, over the host link.

#pragma once

#include <cstddef>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

struct ShardWrite {
  std::size_t shard = 0;
  std::vector<float> elements;  // row by row
};

// One transfer per shard, all begun now; waits for the last.  Each shard's new contents are visible
// when its own transfer has landed.
void copy_from_host(const Tensor& target, std::vector<ShardWrite> writes);

}  // namespace kernbench::runtime
