// Tensors made of other tensors' forms, of ranges and of random numbers.

#include <fmt/format.h>

#include <cmath>

#include "runtime/random/generator.h"
#include "runtime/simulation/simulation.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

// A tensor of the same shape, type and placement, on the same device, with these elements.
Tensor made_like(const Tensor& like, const std::function<void(Tensor::Storage&)>& initialize) {
  runtime::check_on_device(like, "a tensor like another one");
  Tensor made(runtime::make_device_storage(like.storage()->simulation, like.device(), like.shape(),
                                           {.dtype = like.dtype(), .dp = like.dp()}));
  initialize(*made.storage());
  return made;
}

}  // namespace

Tensor RuntimeContext::make(const Shape& shape, const TensorOptions& options,
                            const std::vector<float>& elements) const {
  Tensor made = make(shape, options);
  runtime::set_elements(*made.storage(), elements);
  return made;
}

Tensor RuntimeContext::zeros_like(const Tensor& like) const {
  return full_like(like, 0);
}
Tensor RuntimeContext::ones_like(const Tensor& like) const {
  return full_like(like, 1);
}
Tensor RuntimeContext::full_like(const Tensor& like, double value) const {
  return made_like(
      like, [&](Tensor::Storage& storage) { runtime::fill(storage, static_cast<float>(value)); });
}
Tensor RuntimeContext::empty_like(const Tensor& like) const {
  return made_like(like, [](Tensor::Storage&) {});
}
Tensor RuntimeContext::rand_like(const Tensor& like) const {
  return made_like(like, [&](Tensor::Storage& storage) {
    runtime::set_elements(storage,
                          random::uniform(random::Generator::of(*simulation_, storage.device),
                                          storage.shape.numel(), 0, 1));
  });
}
Tensor RuntimeContext::randn_like(const Tensor& like) const {
  return made_like(like, [&](Tensor::Storage& storage) {
    runtime::set_elements(storage,
                          random::normal(random::Generator::of(*simulation_, storage.device),
                                         storage.shape.numel(), 0, 1));
  });
}

Tensor RuntimeContext::arange(double start, double end, double step,
                              const TensorOptions& options) const {
  if (step == 0) throw DeviceError("KB-F001", "arange: step must be nonzero");
  if ((step > 0 && start > end) || (step < 0 && start < end)) {
    throw DeviceError("KB-F001",
                      fmt::format("arange: upper bound and larger bound inconsistent with step "
                                  "sign: from {} to {} by {}",
                                  start, end, step));
  }
  const auto count = static_cast<std::int64_t>(std::ceil((end - start) / step));
  std::vector<float> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    elements.push_back(static_cast<float>(start + static_cast<double>(i) * step));
  }
  return make({count}, options, elements);
}
Tensor RuntimeContext::arange(double end, const TensorOptions& options) const {
  return arange(0, end, 1, options);
}

Tensor RuntimeContext::tensor(std::span<const float> elements, const Shape& shape,
                              const TensorOptions& options) const {
  check_count(elements.size(), shape);
  return make(shape, options, {elements.begin(), elements.end()});
}

Tensor RuntimeContext::rand(const Shape& shape, const TensorOptions& options) const {
  auto& generator = random::Generator::of(*simulation_, ahbm.current_device());
  return make(shape, options, random::uniform(generator, shape.numel(), 0, 1));
}
Tensor RuntimeContext::randn(const Shape& shape, const TensorOptions& options) const {
  auto& generator = random::Generator::of(*simulation_, ahbm.current_device());
  return make(shape, options, random::normal(generator, shape.numel(), 0, 1));
}

Tensor RuntimeContext::randint(std::int64_t low, std::int64_t high, const Shape& shape,
                               const TensorOptions& options) const {
  if (low >= high) {
    throw DeviceError("KB-F001", fmt::format("randint: random_ expects 'from' to be less than "
                                             "'to', but got from={} >= to={}",
                                             low, high));
  }
  const random::Draw draw = random::Generator::of(*simulation_, ahbm.current_device()).draw();
  std::vector<float> elements;
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    elements.push_back(static_cast<float>(low + draw.bits(i) % (high - low)));
  }
  return make(shape, options, elements);
}

void RuntimeContext::manual_seed(std::uint64_t seed) const {
  random::manual_seed(*simulation_, seed);
}

}  // namespace kernbench
