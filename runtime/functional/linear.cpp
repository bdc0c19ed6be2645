#include "runtime/functional/linear.h"

#include "runtime/functional/matmul.h"

namespace kernbench::nn::functional {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return addmm(bias, x, weight, {.transpose_b = true});
}

}  // namespace kernbench::nn::functional
