#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"

namespace kernbench::nn::functional {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (!bias.defined() || x.dim() != 1) return addmm(bias, x, weight, {.transpose_b = true});
  return squeeze(addmm(bias, unsqueeze(x, 0), weight, {.transpose_b = true}), 0);
}

}  // namespace kernbench::nn::functional
