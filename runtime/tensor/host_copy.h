// Copies from the host into shards, over the host link.

#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string_view>
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
// when its own transfer has landed.  `function` is what the user called at `location`.
// Throws CollectiveError KB-R012 inside a kernel, KB-G003 if an operation under way uses the target
// (runtime/tensor/data_under_way.h).
void copy_from_host(const Tensor& target, std::vector<ShardWrite> writes, std::string_view function,
                    const std::source_location& location);

// The parts of Tensor::copy_() and Tensor::copy_shard_() that are not autograd's.
// REQUIRES: both are defined, and of the same shape
void copy_elements(const Tensor& into, const Tensor& source,
                   const std::source_location& location = std::source_location::current());
// Throws DeviceError KB-M017, KB-M015.  REQUIRES: both are defined
void copy_elements_of_shard(const Tensor& into, std::size_t index, const Tensor& source,
                            const std::source_location& location);

}  // namespace kernbench::runtime
