// Activations: elementwise functions of one tensor.  elementwise.h has the rules for all of them; x
// must not be partial (KB-F003).

#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// max(x, 0).  Its gradient at 0 is 0, as torch's.
Tensor relu(const Tensor& x);
Tensor sigmoid(const Tensor& x);
// The hyperbolic tangent, within 3e-7 of it before it is rounded to the type.
Tensor tanh(const Tensor& x);

namespace nn::functional {

using kernbench::relu;
using kernbench::sigmoid;
using kernbench::tanh;

// x sigmoid(x), computed in f32 with one rounding (torch.nn.functional.silu).
Tensor silu(const Tensor& x);

// log(1 + exp(x)) (torch's with beta 1; torch takes x itself above 20, where f32 has no other), and
// x, or negative_slope x where x is negative.
Tensor softplus(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
// log(sigmoid(x)), and x, or alpha (e^x - 1) where x is negative.
Tensor logsigmoid(const Tensor& x);
Tensor elu(const Tensor& x, double alpha = 1);
// a sigmoid(b) for the two halves a and b along a dimension of an even size (KB-F001).
Tensor glu(const Tensor& x, int dim = -1);

enum class Approximate : std::uint8_t { none, tanh };

// x Phi(x), where Phi is the standard normal distribution (torch.nn.functional.gelu).  It is
// computed in f32, with one rounding to the type.
//   none  Phi(x) = erfc(-x / sqrt(2)) / 2.  PE_MATH has no erfc, so a polynomial times
//         exp(-x^2 / 2) approximates it (Abramowitz and Stegun 7.1.26): its error is at most
//         0.75e-7 of Phi and, with f32 rounding, 6e-7 (ADR-0137).
//   tanh  x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)), as in Megatron's fused bias_gelu and
//         tl.composite; in forward it takes about two thirds of the time of `none`.
Tensor gelu(const Tensor& x, Approximate approximate = Approximate::none);

}  // namespace nn::functional

// torch::silu, torch::gelu
using nn::functional::gelu;
using nn::functional::silu;

}  // namespace kernbench
