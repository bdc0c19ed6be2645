#pragma once

#include <type_traits>

#include "runtime/tl/tensor.h"

namespace kernbench::tl {

// An operand of an elementwise operation: a tensor, or a number that stands for a tensor filled
// with it.  It refers to its tensor, so it is made at the call and used at once.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Operand(Number number)
      : number_(static_cast<double>(number)) {}

  const Tensor* tensor() const { return tensor_; }  // null: a number
  double number() const { return number_; }

 private:
  const Tensor* tensor_ = nullptr;
  double number_ = 0;
};

}  // namespace kernbench::tl
