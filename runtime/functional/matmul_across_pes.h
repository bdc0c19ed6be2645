// Matrix products whose PEs read factors where they lie, on other PEs too.

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/functional/matmul_kernel.h"
#include "runtime/ops/placement.h"

namespace kernbench::ops {

// Computes c = alpha (a b) + bias on every PE that holds rows of c, each with tl.composite.  Rows
// of a factor that several PEs need are read from HBM once (sim::SharedTiles).
// Throws DeviceError KB-F003 for a factor whose rows in memory are cut within, or a partial one.
// REQUIRES: c's columns are whole; a and b are folded, are read in place and lie on c's holders;
// the product sums over at least one element
void gemm_across_pes(const Tensor& c, const GemmOperands& operands);

// Returns x^T dy, the gradient of a factor [in, out] of x [n, in] times it, with dy [n, out].  Of a
// shared factor it lies as that does: each PE computes its rows from other PEs' parts of x and dy.
// Throws DeviceError KB-F001, KB-F002, KB-F003 as matmul() does.
Tensor gradient_of_factor(const Tensor& x, const Tensor& dy, const Placement& of_factor);

// Rows [begin, end) of a matrix.
struct MatrixRows {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
};

// A product of some rows of its matrices: c's and a's, or, where a is transposed, those of a and b
// in memory, over which it sums.
struct GemmOfRows {
  Tensor c;
  GemmOperands operands;
  MatrixRows rows;
};

// Does the same for each of several products in one launch, in the name of an operator.
// REQUIRES: there is one; each has at least one row, and no bias; all tensors have the same holders
void gemms_across_pes(std::string_view name, const std::vector<GemmOfRows>& products);

}  // namespace kernbench::ops
