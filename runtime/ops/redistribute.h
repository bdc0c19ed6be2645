// Exchanges elements between the PEs of a device.  Records nothing.

#pragma once

#include <cstdint>

#include "runtime/ops/placement.h"

namespace kernbench::ops {

// Returns x with this placement, on the same device; x itself if it lies so.  Summands of a partial
// tensor are added up, in f32 with one rounding, or exactly if they are integers.
// REQUIRES: x is not strided; the placement is not partial
Tensor redistributed(const Tensor& x, const Placement& placement);
// Returns elements [start, start + length) along the first dimension with this placement.
// REQUIRES: as redistributed(); x has them
Tensor redistributed_rows(const Tensor& x, std::int64_t start, std::int64_t length,
                          const Placement& placement);

}  // namespace kernbench::ops
