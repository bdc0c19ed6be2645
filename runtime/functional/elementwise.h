// Elementwise operators.  Each launches a kernel on every PE that holds a part, in forward and in
// backward.  Elements are computed in f32 and rounded once to the tensors' type.
//
// Operands have one type and the same holders (KB-F002, KB-F003); ADR-0131 has the rules for
// placements.  One operand has the shape of the other, or is a vector [n] beside [..., n]
// (KB-F001).

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// a + b: both have the same placement, which may be partial.
Tensor operator+(const Tensor& a, const Tensor& b);
// a - b: only b may be a vector.
Tensor operator-(const Tensor& a, const Tensor& b);
// a b: both have the same placement, or one is partial and the other replicated.
Tensor operator*(const Tensor& a, const Tensor& b);

// x times a number.  The number is an f32 whatever the type of x, as in torch, so that 1e-8 does
// not become 0 beside an f16 tensor.  x may have any placement.
Tensor operator*(const Tensor& x, double number);
Tensor operator*(double number, const Tensor& x);

// max(x, 0).  Its gradient at 0 is 0, as torch's.  x must not be partial.
Tensor relu(const Tensor& x);

// Returns a copy of x in memory of its own (torch.clone).
Tensor clone(const Tensor& x);

namespace nn::functional {

enum class Approximate : std::uint8_t { none, tanh };

// x Phi(x), where Phi is the standard normal distribution (torch.nn.functional.gelu).  It is
// computed in f32, with one rounding to the type.  x must not be partial.
//   none  Phi(x) = erfc(-x / sqrt(2)) / 2.  PE_MATH has no erfc, so a polynomial times
//         exp(-x^2 / 2) approximates it (Abramowitz and Stegun 7.1.26): its error is at most
//         0.75e-7 of Phi and, with f32 rounding, 6e-7 (ADR-0137).
//   tanh  x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), as in Megatron's fused bias_gelu and
//         tl.composite; in forward it takes about two thirds of the time of `none`.
Tensor gelu(const Tensor& x, Approximate approximate = Approximate::none);

}  // namespace nn::functional

}  // namespace kernbench
