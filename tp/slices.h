// Parts of tensors, moved inside each PE.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/functional/placement.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::tp {

// Elements [begin, begin + length) of x along its first or its last dimension, as a tensor that
// lies so; each PE takes its part of the result out of its own part of x, which must be in there:
// x is replicated, or cut along the other dimension as the result is.
// Throws DeviceError KB-F003 if it is not.
// REQUIRES: dim is 0 or the last one; the range lies in x
Tensor slice(const Tensor& x, std::size_t dim, std::int64_t begin, std::int64_t length,
             const ops::Placement& placement);

// How x lies if its last dimension is not cut, and it is no sum of holders.
ops::Placement uncut_along_last_dim(const Tensor& x);

// Equal parts of x along its last dimension (Megatron's split_tensor_along_last_dim); gradients
// flow through it.  Throws CollectiveError KB-T001 if it is not divisible so.
std::vector<Tensor> split_tensor_along_last_dim(const Tensor& x, int num_partitions);

}  // namespace kernbench::tp
