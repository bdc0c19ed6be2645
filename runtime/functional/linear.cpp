#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"

namespace kernbench::nn::functional {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return addmm(bias, x, weight, {.transpose_b = true});
}

}  // namespace kernbench::nn::functional
