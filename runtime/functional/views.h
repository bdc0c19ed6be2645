// Views of a tensor's elements in another shape.  They record nothing.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// The same elements in the same memory, as `shape`.  What was cut in rows may then be cut in
// columns, and the reverse; where both are right, it is as in `wanted`.
// Throws DeviceError KB-F003 if holders would have other elements than they have.
// REQUIRES: as many elements, on a device
Tensor viewed(const Tensor& x, const Shape& shape, const DPPolicy& wanted);

}  // namespace kernbench::ops
