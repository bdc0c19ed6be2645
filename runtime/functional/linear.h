#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// x weight^T + bias for x [..., in], weight [out, in] and bias [out] or none: [..., out], as in
// torch.  It is an addmm(), with one rounding.  The layers of tp have weights [in, out], which
// they multiply without a transposition.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace kernbench::nn::functional
