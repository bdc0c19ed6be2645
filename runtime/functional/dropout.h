#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// In training, sets each element to 0 with probability p and multiplies the others by 1 / (1 - p);
// else x itself.  The mask comes from the generator of the device and is the same with every
// placement of x; the host draws it outside of simulated time, and the kernel loads it (ADR-0208).
// x may be partial.  Throws DeviceError KB-F001, in torch's words, for a p outside of [0, 1].
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace kernbench::nn::functional
