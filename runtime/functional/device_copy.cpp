// Tensor::to() another device.

#include <fmt/format.h>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/host_copy.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

namespace {

Tensor on_host(const Tensor& x) {
  if (is_integral(x.dtype())) {
    return Tensor(runtime::make_host_storage(x.shape(), x.to_vector<std::int64_t>(), x.dtype()));
  }
  return Tensor(runtime::make_host_storage(x.shape(), x.to_vector(), x.dtype()));
}

}  // namespace

Tensor Tensor::to(const Device& device) const {
  if (is_host() && device.is_host()) return *this;
  if (device.is_host()) return on_host(*this);
  ops::check_operands("to", {*this}, ops::Types::any);
  const int target = device.index_or(storage()->simulation->local().device);
  if (target == this->device()) return *this;
  const Tensor x = kernbench::contiguous(*this);
  return autograd::record("to", runtime::copy_on(x, target), {x},
                          [source = x.device()](const Tensor& dy) {
                            return std::vector{runtime::copy_on(dy, source)};
                          });
}

Tensor Tensor::to(const Tensor& other) const {
  const Tensor x = dtype() == other.dtype() ? *this : to(other.dtype());
  if (other.is_host()) return x.cpu();
  return x.to(Device(fmt::format("ahbm:{}", other.device())));
}

Tensor Tensor::cpu() const {
  return to(Device("cpu"));
}

}  // namespace kernbench
