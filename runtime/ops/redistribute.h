// Exchanges elements between the PEs of a device.  Records nothing.

#pragma once

#include "runtime/ops/placement.h"

namespace kernbench::ops {

// Returns x with this placement, on the same device; x itself if it lies so.  What is partial is
// summed up, in f32 with one rounding or, of integers, exactly.
// REQUIRES: x is not strided; the placement is not partial
Tensor redistributed(const Tensor& x, const Placement& placement);

}  // namespace kernbench::ops
