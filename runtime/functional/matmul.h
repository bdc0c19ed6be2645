// Matrix products.

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench {

struct MatmulOptions {
  bool transpose_a = false;  // the last two dimensions of a are exchanged
  bool transpose_b = false;
  double alpha = 1;  // what the product is multiplied with, in f32 (torch.addmm, torch.baddbmm)
};

// alpha a b, summed in f32 with one rounding to their type:
//   [..., m, k] x [k, n] -> [..., m, n]; with transpose_a only of two dimensions
//   [..., m, k] x [..., k, n] -> [..., m, n], the same sizes in front of both
//
// Each PE multiplies its own parts, on each level of the placement:
//   replicate x replicate -> replicate      k cut on both        -> partial
//   rows of a cut         -> rows cut       columns of b cut     -> columns cut
//   batch cut on both     -> batch cut      partial x replicate  -> partial, and the reverse
// Throws DeviceError KB-F001, KB-F002; KB-F003 for other placements.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// alpha a b + input, for an input [n] that is added to each row (torch.addmm), or none (undefined):
// one kernel, and one rounding.  Placements as matmul(); the input is cut with the columns, else
// replicated, and partial where the product is.  Throws as matmul().
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b,
             const MatmulOptions& options = {});

}  // namespace kernbench
