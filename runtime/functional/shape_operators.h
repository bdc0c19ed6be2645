// Operators that change shapes.

#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// The same elements in another shape: a view, which shares memory with x, and costs no time.  One
// size may be -1: what is left for it.  Throws DeviceError KB-F001 if the number of elements
// differs, KB-F003 if a holder's part of x is not its part of the result.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes);

// Two dimensions exchanged, negative ones counted from the last; a kernel moves the elements.
// Where one of them is cut, the result is cut along the other, which must be its first or last
// (KB-F003).  KB-F001 if there is no such dimension.
Tensor transpose(const Tensor& x, int dim0, int dim1);

}  // namespace kernbench
