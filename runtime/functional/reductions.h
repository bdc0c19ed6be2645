// Sums of all elements.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench {

// The sum of all elements, a tensor of no dimensions: in f32, with one rounding to the type of x.
// Of a tensor that is cut it is partial: each holder has the sum of its part.
Tensor sum(const Tensor& x);

}  // namespace kernbench
