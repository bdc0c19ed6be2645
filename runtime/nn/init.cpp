#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/nn/module.h"
#include "runtime/random/generator.h"
#include "runtime/tensor/strided_view.h"
#include "runtime/tensor/tensor_storage.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn::init {

namespace {

struct Fans {
  double in = 0;
  double out = 0;
};

Fans compute_fans(const Tensor& tensor) {
  runtime::check_on_device(tensor, "init");
  if (tensor.dim() < 2) {
    throw DeviceError("KB-F001",
                      "init: Fan in and fan out can not be computed for tensor with fewer than 2 "
                      "dimensions");
  }
  double rest = 1;  // a quotient would divide by 0 where there are no elements
  for (std::size_t d = 2; d < tensor.shape().rank(); ++d) {
    rest *= static_cast<double>(tensor.shape()[d]);
  }
  return {static_cast<double>(tensor.shape()[1]) * rest,
          static_cast<double>(tensor.shape()[0]) * rest};
}

// Throws KB-F001, in torch's words, for a view as expand() makes it.
void check_has_no_repeats(const Tensor& tensor) {
  if (!runtime::is_strided(tensor) || !runtime::repeats_elements(tensor)) return;
  throw DeviceError("KB-F001",
                    "init: unsupported operation: more than one element of the written-to tensor "
                    "refers to a single memory location. Please clone() the tensor before "
                    "performing the operation.");
}

double compute_fan(const Tensor& tensor, FanMode mode) {
  return mode == FanMode::fan_in ? compute_fans(tensor).in : compute_fans(tensor).out;
}

}  // namespace

const Tensor& uniform_(const Tensor& tensor, double low, double high) {
  const NoGradGuard no_grad(tensor);
  tensor.uniform_(low, high);
  return tensor;
}
const Tensor& normal_(const Tensor& tensor, double mean, double std) {
  const NoGradGuard no_grad(tensor);
  tensor.normal_(mean, std);
  return tensor;
}
const Tensor& constant_(const Tensor& tensor, double value) {
  runtime::check_on_device(tensor, "init");
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
  const Fans fans = compute_fans(tensor);
  const double bound = gain * std::sqrt(6 / (fans.in + fans.out));
  return uniform_(tensor, -bound, bound);
}
const Tensor& xavier_normal_(const Tensor& tensor, double gain) {
  const Fans fans = compute_fans(tensor);
  return normal_(tensor, 0, gain * std::sqrt(2 / (fans.in + fans.out)));
}
const Tensor& kaiming_uniform_(const Tensor& tensor, double a, FanMode mode) {
  const double bound = std::sqrt(6 / ((1 + a * a) * compute_fan(tensor, mode)));
  return uniform_(tensor, -bound, bound);
}
const Tensor& kaiming_normal_(const Tensor& tensor, double a, FanMode mode) {
  return normal_(tensor, 0, std::sqrt(2 / ((1 + a * a) * compute_fan(tensor, mode))));
}

const Tensor& eye_(const Tensor& tensor) {
  runtime::check_on_device(tensor, "init");
  if (tensor.dim() != 2)
    throw DeviceError("KB-F001", "init: Only tensors with 2 dimensions are supported");
  check_has_no_repeats(tensor);
  const std::int64_t columns = tensor.shape()[1];
  std::vector<float> elements(static_cast<std::size_t>(tensor.numel()), 0);
  for (std::int64_t i = 0; i < std::min(tensor.shape()[0], columns); ++i) {
    elements[static_cast<std::size_t>(i * columns + i)] = 1;
  }
  runtime::set_elements(*tensor.storage(), elements);
  return tensor;
}

const Tensor& trunc_normal_(const Tensor& tensor, double mean, double std, double a, double b) {
  runtime::check_on_device(tensor, "init");
  check_has_no_repeats(tensor);
  const auto below = [&](double x) { return std::erf((x - mean) / (std * std::numbers::sqrt2)); };
  if (!(below(b) - below(a) > 1e-3)) {
    throw DeviceError("KB-F001", "init: trunc_normal_: hardly a number lies between a and b");
  }
  auto& generator = random::Generator::of(*tensor.storage()->simulation, tensor.device());
  std::vector<float> elements;
  while (static_cast<std::int64_t>(elements.size()) < tensor.numel()) {
    const auto left = tensor.numel() - static_cast<std::int64_t>(elements.size());
    for (const float drawn : random::normal(generator, left, mean, std)) {
      if (drawn >= a && drawn <= b) elements.push_back(drawn);
    }
  }
  runtime::set_elements(*tensor.storage(), elements);
  return tensor;
}

}  // namespace kernbench::nn::init
