// Operators on each element.  Each launches a kernel on every PE that holds a part, in forward and
// in backward.  Elements are computed in f32 and rounded once to the tensors' type.
//
// Operands are of one type and lie on the same holders (KB-F002, KB-F003); placements as ADR-0131
// says.  One has the shape of the other, or is a vector [n] beside [..., n] (KB-F001).

#pragma once

#include "runtime/tensor/tensor.h"

namespace kernbench {

// a + b: the same placements, of which partial is one.
Tensor operator+(const Tensor& a, const Tensor& b);
// a - b, where b alone may be a vector.
Tensor operator-(const Tensor& a, const Tensor& b);
// a b: the same placements, or one partial and the other replicated.
Tensor operator*(const Tensor& a, const Tensor& b);

// x times a number, which is one of f32 whatever the type of x, as torch's: x * 1e-8 of f16 is not
// 0 for that 1e-8 is none of f16.  Any placement.
Tensor operator*(const Tensor& x, double number);
Tensor operator*(double number, const Tensor& x);

// max(x, 0); its gradient at 0 is 0, as torch's.  Not of a partial tensor.
Tensor relu(const Tensor& x);

// The same elements in memory of its own (torch.clone).
Tensor clone(const Tensor& x);

namespace nn::functional {

// x Phi(x) by x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)): torch's approximate='tanh', as
// Megatron's fused bias_gelu and tl.composite's (there is no erf on PE_MATH, which torch's default
// needs).  In f32, with one rounding to the type.  Not of a partial tensor.
Tensor gelu(const Tensor& x);

}  // namespace nn::functional

}  // namespace kernbench
