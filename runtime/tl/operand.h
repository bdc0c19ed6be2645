#pragma once

#include <type_traits>

#include "runtime/tl/tensor.h"
#include "sim_engine/base/scalar.h"

namespace kernbench::tl {

// An operand of an elementwise operation: a tensor, or a number that stands for a tensor filled
// with it.  It refers to its tensor, so it is made at the call and used at once.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Operand(Number number) : number_(number) {}
  Operand(const Scalar& number) : number_(number) {}

  const Tensor* tensor() const { return tensor_; }  // null: a number
  const Scalar& number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar number_;
};

}  // namespace kernbench::tl
