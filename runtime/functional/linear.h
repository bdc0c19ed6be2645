#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// x weight^T + bias, of [..., in], [out, in] and [out] or none: [..., out], as torch has it.  An
// addmm(), which rounds once.  The layers of tp have their weights as [in, out], and multiply
// without a transposition.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace kernbench::nn::functional
