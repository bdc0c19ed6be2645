// Kernels that take and add up elements at indices that the host knows.  They record nothing.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

using Indices = std::vector<std::int64_t>;

// Returns the elements of x with these indices along a dimension.
// REQUIRES: x is not strided nor cut along it; the indices are in range
Tensor taken(const Tensor& x, std::size_t dimension, const Indices& indices);
// The gradient of taken() for x of `size` elements along the dimension: what several indices take
// is added up in f32 and rounded once, or exactly.
Tensor given_back(const Tensor& dy, std::size_t dimension, const Indices& indices,
                  std::int64_t size);

// Returns, for each index of a tensor of shape `shape`, x's element with that index along the
// dimension and the same place along the others (torch.gather).
// REQUIRES: as above; along the other dimensions the shape has x's sizes
Tensor gathered(const Tensor& x, std::size_t dimension, const Indices& indices, const Shape& shape);
// Returns x with the elements of src at these indices along the dimension: in x's place, of several
// the last, or added to x's in f32 or exactly.
// REQUIRES: as above; src has x's placement and type
enum class Scatter : std::uint8_t { replace, add };
Tensor scattered_into(const Tensor& x, std::size_t dimension, const Indices& indices,
                      const Tensor& src, Scatter how);
// The gradient of gathered() for x of `size` elements along the dimension.
Tensor scattered(const Tensor& dy, std::size_t dimension, const Indices& indices,
                 std::int64_t size);

}  // namespace kernbench::ops
