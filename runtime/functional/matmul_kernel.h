// The kernel of matrix products.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

struct GemmOperands {
  Tensor a;
  Tensor b;
  bool transpose_a = false;
  bool transpose_b = false;
  // Whether all dimensions but the last of each tensor are rows of one matrix; else the last two
  // are a matrix, and those in front count matrices.
  bool is_folded = true;
};

// c = a b on every PE that holds a part of c, in tiles: loads, products and stores of different
// tiles overlap.
void gemm_into(const Tensor& c, const GemmOperands& operands);

}  // namespace kernbench::ops
