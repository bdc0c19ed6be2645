// The table of + - * /, for operators and for their in-place forms.

#pragma once

#include "runtime/functional/elementwise_operator.h"

namespace kernbench::arithmetic {

extern const ElementwiseOperator kAdd;        // a + b
extern const ElementwiseOperator kAddScaled;  // a + number b
extern const ElementwiseOperator kSub;
extern const ElementwiseOperator kMul;
extern const ElementwiseOperator kDiv;
extern const ElementwiseOperator kNeg;
extern const ElementwiseOperator kAddNumber;
extern const ElementwiseOperator kNumberSub;  // number - x
extern const ElementwiseOperator kScale;      // x number
extern const ElementwiseOperator kDivNumber;  // x / number
extern const ElementwiseOperator kNumberDiv;  // number / x

// The factor of b in a + alpha b, which does not change the result's type.  Throws DeviceError
// KB-F002 for integers and a factor that is not whole.
Scalar to_alpha(const Tensor& a, const Tensor& b, double alpha);

// Throws DeviceError KB-F002, in torch's words, for an operand of bool.
void check_is_no_bool(std::string_view name, const Tensor& x);

}  // namespace kernbench::arithmetic
