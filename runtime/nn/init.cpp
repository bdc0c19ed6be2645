#include "runtime/nn/init.h"

#include <cmath>

#include "runtime/autograd/grad_mode.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::init {

namespace {

struct Fans {
  double in = 0;
  double out = 0;
};

Fans fans_of(const Tensor& tensor) {
  if (tensor.dim() < 2) {
    throw DeviceError("KB-F001",
                      "init: Fan in and fan out can not be computed for tensor with fewer than 2 "
                      "dimensions");
  }
  const auto rest = static_cast<double>(tensor.numel() / (tensor.shape()[0] * tensor.shape()[1]));
  return {static_cast<double>(tensor.shape()[1]) * rest,
          static_cast<double>(tensor.shape()[0]) * rest};
}

}  // namespace

const Tensor& uniform_(const Tensor& tensor, double low, double high) {
  const NoGradGuard no_grad(*tensor.storage()->simulation);
  tensor.uniform_(low, high);
  return tensor;
}
const Tensor& normal_(const Tensor& tensor, double mean, double std) {
  const NoGradGuard no_grad(*tensor.storage()->simulation);
  tensor.normal_(mean, std);
  return tensor;
}
const Tensor& constant_(const Tensor& tensor, double value) {
  runtime::fill(*tensor.storage(), static_cast<float>(value));
  return tensor;
}
const Tensor& ones_(const Tensor& tensor) {
  return constant_(tensor, 1);
}
const Tensor& zeros_(const Tensor& tensor) {
  return constant_(tensor, 0);
}
const Tensor& xavier_uniform_(const Tensor& tensor, double gain) {
  const Fans fans = fans_of(tensor);
  const double bound = gain * std::sqrt(6 / (fans.in + fans.out));
  return uniform_(tensor, -bound, bound);
}
const Tensor& xavier_normal_(const Tensor& tensor, double gain) {
  const Fans fans = fans_of(tensor);
  return normal_(tensor, 0, gain * std::sqrt(2 / (fans.in + fans.out)));
}
const Tensor& kaiming_uniform_(const Tensor& tensor, double a) {
  const double bound = std::sqrt(6 / ((1 + a * a) * fans_of(tensor).in));
  return uniform_(tensor, -bound, bound);
}
const Tensor& kaiming_normal_(const Tensor& tensor, double a) {
  return normal_(tensor, 0, std::sqrt(2 / ((1 + a * a) * fans_of(tensor).in)));
}

}  // namespace kernbench::nn::init
