// Copies from the host into shards, over the host link.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

struct ShardWrite {
  std::size_t shard = 0;
  // Row by row.  Writes of the same elements share them, and then they share their value too: the
  // copies of a replicated tensor take the host's memory of one.
  std::shared_ptr<const std::vector<float>> elements;
};

// One transfer per shard, all begun now; waits for the last.  Each shard's new contents are visible
// when its own transfer has landed.
void copy_from_host(const Tensor& target, std::vector<ShardWrite> writes);

}  // namespace kernbench::runtime
