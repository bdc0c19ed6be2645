// Operators on each element.  Each launches a kernel on every PE that holds a part, in forward and
// in backward.  Elements are computed in f32 and rounded once to the tensors' type.
//
// Operands are of one type and lie on the same holders (KB-F002, KB-F003); placements as ADR-0131
// says.  One has the shape of the other, or is a vector [n] beside [..., n] (KB-F001).

#pragma once

#include <cstdint>

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

enum class Approximate : std::uint8_t { none, tanh };

// x Phi(x), of the standard normal distribution (torch.nn.functional.gelu).  In f32, with one
// rounding to the type.  Not of a partial tensor.
//   none  Phi(x) = erfc(-x / sqrt(2)) / 2, which PE_MATH has not: by Abramowitz and Stegun 7.1.26,
//         a polynomial times exp(-x^2 / 2), off Phi by at most 0.75e-7 and, with what f32 rounds,
//         6e-7 (ADR-0137).
//   tanh  x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), as Megatron's fused bias_gelu and
//         tl.composite's: about two thirds of the time of the other in forward.
Tensor gelu(const Tensor& x, Approximate approximate = Approximate::none);

}  // namespace nn::functional

}  // namespace kernbench
