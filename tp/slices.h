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
// x itself if that is all of it and lies so.  Throws DeviceError KB-F003 if it is not in there.
// REQUIRES: dim is 0 or the last one; the range lies in x
Tensor slice(const Tensor& x, std::size_t dim, std::int64_t begin, std::int64_t length,
             const ops::Placement& placement);
// The same of a gradient: it lies as that of a tensor that lies so must, and where it is a sum of
// holders, and they all have the tensor, it is one still.  Throws DeviceError KB-F003 where they
// have parts of it, with what makes the gradient whole.
Tensor slice_of_gradient(const Tensor& gradient, std::size_t dim, std::int64_t begin,
                         std::int64_t length, const ops::Placement& tensor);
// All of it.
Tensor gradient_like(const Tensor& gradient, const ops::Placement& tensor);

// How x lies if this dimension is not cut, and it is no sum of holders.
ops::Placement uncut_along(const Tensor& x, std::size_t dim);

// Equal parts of x along its last dimension (Megatron's split_tensor_along_last_dim); gradients
// flow through it.  Throws CollectiveError KB-T001 if it is not divisible so.
std::vector<Tensor> split_tensor_along_last_dim(const Tensor& x, int num_partitions);

}  // namespace kernbench::tp
