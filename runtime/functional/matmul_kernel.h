// The kernel of matrix products.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
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
  Tensor bias = {};                     // [n], split as the columns of c, or undefined
  std::optional<DType> out_dtype = {};  // of c, else a's type

  // The number of products in each sum.
  std::int64_t depth() const {
    const std::int64_t columns = a.size(-1);
    if (!transpose_a) return columns;
    return is_folded ? a.numel() / std::max<std::int64_t>(columns, 1) : a.size(-2);
  }
  std::string_view name() const {
    if (out_dtype) return "scaled_mm";
    return bias.defined() ? "addmm" : "matmul";
  }
};

// True if the kernel can read a factor where it lies: in each matrix of each holder, rows, or
// columns, are stretches of the memory that are equally far apart (ADR-0243).
bool is_read_in_place(const Tensor& factor, bool is_folded);

// Computes c = alpha (a b) + bias on every PE that holds a part of c, in tiles: loads, products
// and stores of different tiles overlap.  All arithmetic is in f32; at the end a tile is rounded
// to c's type.  REQUIRES: a and b are read in place
void gemm_into(const Tensor& c, const GemmOperands& operands);

}  // namespace kernbench::ops
