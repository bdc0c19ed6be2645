// Sums of all elements.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench {

// Sums all elements into a tensor of no dimensions, in f32 with one rounding to the type of x.  If
// x is split the result is partial: each holder has the sum of its part.
Tensor sum(const Tensor& x);

}  // namespace kernbench
