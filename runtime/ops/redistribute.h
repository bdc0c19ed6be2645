// Exchanges elements between the PEs of a device.  Records nothing.

#pragma once

#include "runtime/ops/placement.h"

namespace kernbench::ops {

// Returns x with this placement, on the same device; x itself if it lies so.  Summands of a partial
// tensor are added up, in f32 with one rounding, or exactly if they are integers.
// REQUIRES: x is not strided; the placement is not partial
Tensor redistributed(const Tensor& x, const Placement& placement);

}  // namespace kernbench::ops
