#pragma once

#include <type_traits>

#include "runtime/tl/tensor.h"

namespace kernbench::tl {

// An operand of an element-wise operation: a tensor, or a number, which stands for a tensor of that
// number.  Converted to where it is passed, and used there at once.
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
