// Views of a tensor's elements in another shape.  They record nothing.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// Returns the same elements in the same memory, as `shape`.  A cut into rows may become one into
// columns, and the reverse; if both fit, `wanted` decides.
// Throws DeviceError KB-F003 if holders would have other elements than they have.
// REQUIRES: x is on a device, and `shape` has as many elements
Tensor viewed(const Tensor& x, const Shape& shape, const DPPolicy& wanted);

}  // namespace kernbench::ops
