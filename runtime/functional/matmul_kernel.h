// The kernel of matrix products.

#pragma once

#include <string_view>

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
  double alpha = 1;
  Tensor bias = {};  // [n], which lies as the columns of c, or none (undefined)

  std::string_view name() const { return bias.defined() ? "addmm" : "matmul"; }
};

// c = alpha (a b) + bias on every PE that holds a part of c, in tiles: loads, products and stores
// of different tiles overlap.  All of it in f32 but the end, where a tile is rounded to c's type.
void gemm_into(const Tensor& c, const GemmOperands& operands);

}  // namespace kernbench::ops
