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

}  // namespace kernbench::arithmetic
