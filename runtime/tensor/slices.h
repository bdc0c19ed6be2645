// Visits the elements of a shard inside its tensor, as row-major boxes.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor_options.h"

namespace kernbench::runtime {

// Calls `visit(position in the tensor, position in the shard, count)` for each run of elements that
// are consecutive in both.
template <class Visit>
void for_each_run(const Shape& tensor, const ShardInfo& shard, Visit visit) {
  const std::size_t rank = tensor.rank();
  if (shard.shape.numel() == 0) return;
  const std::int64_t run = rank == 0 ? 1 : shard.shape[rank - 1];
  std::vector<std::int64_t> index(rank, 0);  // in the shard; its last component stays 0
  for (std::int64_t in_shard = 0; in_shard < shard.shape.numel(); in_shard += run) {
    std::int64_t in_tensor = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      in_tensor = in_tensor * tensor[i] + shard.offset[i] + index[i];
    }
    visit(in_tensor, in_shard, run);
    for (std::size_t i = rank - 1; rank > 1 && i-- > 0;) {  // the next row
      if (++index[i] < shard.shape[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace kernbench::runtime
