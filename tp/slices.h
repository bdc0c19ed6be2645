// Parts of tensors, moved inside each PE.

#pragma once

#include <cstdint>

#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::tp {

// Elements [begin, begin + length) of x along its first or last dimension, as a tensor with the
// given placement.  Each PE copies its part of the result from its own part of x, which must
// contain it: x is replicated, or placed like the result and not cut along `dim`; else throws
// DeviceError KB-F003.  Returns x itself if that is the whole of x in the same placement.
// REQUIRES: dim is 0 or the last one; the range lies in x
Tensor slice(const Tensor& x, std::size_t dim, std::int64_t begin, std::int64_t length,
             const ops::Placement& placement);
// Slices a gradient: the result has the placement that the gradient of a tensor with the given
// placement must have.  A partial gradient stays partial if all holders have the whole tensor; if
// they have parts of it, throws DeviceError KB-F003, which says what makes the gradient whole.
Tensor slice_of_gradient(const Tensor& gradient, std::size_t dim, std::int64_t begin,
                         std::int64_t length, const ops::Placement& tensor);
// The whole gradient in that placement.
Tensor gradient_like(const Tensor& gradient, const ops::Placement& tensor);

// The placement of x with dimension `dim` not cut, and not partial.
ops::Placement uncut_along(const Tensor& x, std::size_t dim);

}  // namespace kernbench::tp
