// Products of groups of rows with a weight each, in one launch.

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// x_g weights[g]^T for each group g of consecutive rows of x [m, in], of which it has sizes[g], and
// a weight [out, in]: [m, out].  This is torch.nn.functional.grouped_mm of a matrix, whose `offs`
// are the sums of the sizes, as the experts of a mixture need it: the host knows the sizes.  One
// kernel computes all groups, and one more each of both gradients: the PEs that hold rows of a
// group share its product, and read its weight where it lies.
//
// x lies row by row on PEs beside weights that these share (DPPolicy::shared), or all are
// replicated on the same PEs.  A weight without rows gets a gradient of zeros.
// Throws DeviceError KB-F001 for shapes or sizes that do not fit, and for an `in` or `out` of 0,
// KB-F002, KB-F003.
Tensor grouped_mm(const Tensor& x, const std::vector<std::int64_t>& sizes,
                  const std::vector<Tensor>& weights);

}  // namespace kernbench::nn::functional
