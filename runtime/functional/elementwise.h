// Elementwise operators, with PyTorch's names.  Each launches a kernel on every PE that holds a
// part, in forward and in backward (ADR-0207).  Elements are computed in f32 and rounded once to
// the tensors' type.
//
// Operands have one type and the same holders (KB-F002, KB-F003); ADR-0131 has the rules for
// placements.  Shapes broadcast as in torch (KB-F001).  An operand that repeats along a dimension
// that is cut is replicated.  Only functions that are linear take partial tensors.
//
// A number is an f32 whatever the type of its tensor, as in torch, so that 1e-8 does not become 0
// beside an f16 tensor.

#pragma once

#include <limits>

#include "runtime/tensor/tensor.h"

namespace kernbench {

// a + b and a - b: both lie the same way, which may be partial.
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
// a b: both lie the same way, or one is partial and the other replicated.
Tensor operator*(const Tensor& a, const Tensor& b);
// a / b: both lie the same way, or a is partial and b replicated.
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& x);  // x may be partial

// With a number.  x may be partial in x * number and x / number.
Tensor operator+(const Tensor& x, double number);
Tensor operator+(double number, const Tensor& x);
Tensor operator-(const Tensor& x, double number);
Tensor operator-(double number, const Tensor& x);
Tensor operator*(const Tensor& x, double number);
Tensor operator*(double number, const Tensor& x);
Tensor operator/(const Tensor& x, double number);
Tensor operator/(double number, const Tensor& x);

// a + alpha b and a - alpha b, with one rounding (torch.add, torch.sub).
Tensor add(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor sub(const Tensor& a, const Tensor& b, double alpha = 1);
Tensor add(const Tensor& x, double number);
Tensor sub(const Tensor& x, double number);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& x, double number);
Tensor div(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& x, double number);
Tensor neg(const Tensor& x);

// Comparisons: 1 or 0, in the operands' type (torch gives bool, which is no type here).  No
// gradient flows through them.
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& x, double number);
Tensor operator!=(const Tensor& x, double number);
Tensor operator<(const Tensor& x, double number);
Tensor operator<=(const Tensor& x, double number);
Tensor operator>(const Tensor& x, double number);
Tensor operator>=(const Tensor& x, double number);

// The larger, the smaller of each two elements.  Of equal elements each gets half of the gradient.
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);

// a where the mask is not 0, else b.  The mask may have another type than a and b.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& mask, const Tensor& a, double b);
Tensor where(const Tensor& mask, double a, const Tensor& b);
// x, but `value` where the mask is not 0.
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

// min where x is below it, max where x is above it.  The gradient at a limit is that of x.
Tensor clamp(const Tensor& x, double min = -std::numeric_limits<double>::infinity(),
             double max = std::numeric_limits<double>::infinity());

Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
// x to the power of a number.  Whole exponents up to 64 are products; 0.5 and -0.5 are roots;
// others are exp(exponent log(x)), whose relative error is about |exponent log(x)| 2^-24.
Tensor pow(const Tensor& x, double exponent);

// Returns a copy of x in memory of its own (torch.clone).
Tensor clone(const Tensor& x);
// Rounds x to another type; x itself if it has that type (torch's x.to(dtype)).
Tensor to(const Tensor& x, DType dtype);

}  // namespace kernbench
