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
  // True if all dimensions but the last of each tensor are rows of one matrix; otherwise the last
  // two form a matrix, and the dimensions before them count matrices.
  bool is_folded = true;
  double alpha = 1;
  Tensor bias = {};  // [n], split as the columns of c, or undefined

  std::string_view name() const { return bias.defined() ? "addmm" : "matmul"; }
};

// Computes c = alpha (a b) + bias on every PE that holds a part of c, in tiles: loads, products
// and stores of different tiles overlap.  All arithmetic is in f32; at the end a tile is rounded
// to c's type.
void gemm_into(const Tensor& c, const GemmOperands& operands);

}  // namespace kernbench::ops
