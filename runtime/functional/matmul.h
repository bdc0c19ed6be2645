// Matrix products.

#pragma once

#include <string_view>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench {

struct MatmulOptions {
  bool transpose_a = false;  // exchange the last two dimensions of a
  bool transpose_b = false;
  double alpha = 1;  // factor of the product, applied in f32 (torch.addmm, torch.baddbmm)
};

// Returns alpha a b, summed in f32 with one rounding to the operands' type:
//   [..., m, k] x [k, n] -> [..., m, n]; with transpose_a only of two dimensions
//   [..., m, k] x [..., k, n] -> [..., m, n], the same sizes in front of both
//   a vector [k] counts as one row of a, or one column of b, which the result has not
//
// Each PE multiplies its own parts.  On each level of the placement:
//   replicate x replicate -> replicate      k cut on both        -> partial
//   rows of a cut         -> rows cut       columns of b cut     -> columns cut
//   batch cut on both     -> batch cut      partial x replicate  -> partial, and the reverse
// Throws DeviceError KB-F001, KB-F002; KB-F003 for other placements.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

// Returns alpha a b + input in one kernel, with one rounding.  `input` is [n] and is added to each
// row (torch.addmm), or undefined.  Placements are those of matmul(); the input is split as the
// columns are, else replicated, and partial where the product is.  Throws as matmul().
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b,
             const MatmulOptions& options = {});

// matmul() of matrices, of stacks of as many matrices, of a matrix and a vector, and of vectors
// (torch.mm, torch.bmm, torch.mv, torch.dot).  KB-F001.
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
// The sum of the operands' products over the dimensions whose letters the result has not, as in
// einsum("bhid,bhjd->bhij", {q, k}) (torch.einsum).  "..." stands for further dimensions, which
// broadcast; without "->" the result has the letters that stand once, in their order.  Operands are
// multiplied from left to right: by one matmul() if there is something to sum over, else by an
// elementwise product.  Throws DeviceError KB-F001 in torch's words, KB-F002, KB-F003.
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
// a[i] b[j] for vectors (torch.outer).  KB-F001.
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace kernbench
