#include "runtime/functional/linear.h"

#include "runtime/functional/elementwise.h"
#include "runtime/functional/matmul.h"

namespace kernbench::nn::functional {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = matmul(x, weight, {.transpose_b = true});
  return bias.defined() ? y + bias : y;
}

}  // namespace kernbench::nn::functional
