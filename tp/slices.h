// Parts of tensors, moved inside each PE (in no process group).

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

// Tensors of one shape, one after the other along their first or last dimension.  They lie alike,
// and are not cut along that dimension (KB-F003).
// REQUIRES: dim is 0 or the last one
Tensor join(const std::vector<Tensor>& parts, std::size_t dim);

// How x lies if its last dimension is not cut, and it is no sum of holders.
ops::Placement uncut_along_last_dim(const Tensor& x);

}  // namespace kernbench::tp
