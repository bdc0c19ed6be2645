#include "runtime/nn/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/functional/functional.h"
#include "runtime/nn/repr.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::nn {

namespace {

Shape weight_shape(const ConvOptions& options, bool is_image) {
  const std::int64_t groups = options.groups();
  if (groups <= 0 || options.in_channels() % groups != 0 || options.out_channels() % groups != 0) {
    throw CollectiveError("KB-A010", "in_channels and out_channels must be divisible by groups");
  }
  const std::int64_t inputs = options.in_channels() / groups;
  const Pair& kernel = options.kernel_size();
  if (!is_image) return {options.out_channels(), inputs, kernel.width};
  return {options.out_channels(), inputs, kernel.height, kernel.width};
}

TensorOptions parameter_options(TensorOptions options, const char* name) {
  options.name = options.name.empty() ? name : options.name + "." + name;
  return options;
}

}  // namespace

ConvImpl::ConvImpl(const RuntimeContext& torch, const ConvOptions& of, bool is_image,
                   const TensorOptions& tensors)
    : options(of), is_image_(is_image) {
  const Shape shape = weight_shape(of, is_image);
  const auto fan_in = static_cast<double>(shape.numel() / std::max<std::int64_t>(shape[0], 1));
  const double bound = 1 / std::sqrt(fan_in);
  const Tensor w = torch.empty(shape, parameter_options(tensors, "weight"));
  weight = register_parameter("weight", w.uniform_(-bound, bound));
  if (!of.bias()) return;
  const Tensor b = torch.empty({of.out_channels()}, parameter_options(tensors, "bias"));
  bias = register_parameter("bias", b.uniform_(-bound, bound));
}

std::string ConvImpl::extra_repr() const {
  const auto tuple = [this](const Pair& pair) {
    return is_image_ ? fmt::format("({}, {})", pair.height, pair.width)
                     : fmt::format("({},)", pair.width);
  };
  const auto unless = [&](const char* name, const Pair& pair, std::int64_t usual) {
    const bool is_usual = pair.width == usual && (!is_image_ || pair.height == usual);
    return is_usual ? std::string() : fmt::format(", {}={}", name, tuple(pair));
  };
  std::string text =
      fmt::format("{}, {}, kernel_size={}, stride={}", options.in_channels(),
                  options.out_channels(), tuple(options.kernel_size()), tuple(options.stride())) +
      unless("padding", options.padding(), 0) + unless("dilation", options.dilation(), 1);
  if (options.groups() != 1) text += fmt::format(", groups={}", options.groups());
  return options.bias() ? text : text + ", bias=False";
}

functional::ConvOptions ConvImpl::form() const {
  return {.stride = options.stride(),
          .padding = options.padding(),
          .dilation = options.dilation(),
          .groups = options.groups()};
}

BatchNormImpl::BatchNormImpl(const RuntimeContext& torch, const BatchNormOptions& of,
                             const TensorOptions& tensors)
    : options(of) {
  const Shape shape{of.num_features()};
  if (of.affine()) {
    weight = register_parameter("weight", torch.ones(shape, parameter_options(tensors, "weight")));
    bias = register_parameter("bias", torch.zeros(shape, parameter_options(tensors, "bias")));
  }
  if (!of.track_running_stats()) return;
  running_mean =
      register_buffer("running_mean", torch.zeros(shape, parameter_options(tensors, "mean")));
  running_var =
      register_buffer("running_var", torch.ones(shape, parameter_options(tensors, "var")));
  TensorOptions count = parameter_options(tensors, "count");
  count.dtype = DType::i64;
  num_batches_tracked = register_buffer("num_batches_tracked", torch.zeros({}, count));
}

Tensor BatchNormImpl::forward(const Tensor& x) const {
  const bool tracks = options.track_running_stats();
  if (tracks && is_training()) num_batches_tracked += 1;
  if (is_training() && in_training != nullptr) {
    if (Tensor y = in_training(*this, x); y.defined()) return y;
  }
  return functional::batch_norm(x, running_mean, running_var,
                                {.weight = weight,
                                 .bias = bias,
                                 .training = is_training() || !tracks,
                                 .momentum = options.momentum(),
                                 .eps = options.eps()});
}

GroupNormImpl::GroupNormImpl(const RuntimeContext& torch, const GroupNormOptions& of,
                             const TensorOptions& tensors)
    : options(of) {
  if (!of.affine()) return;
  const Shape shape{of.num_channels()};
  weight = register_parameter("weight", torch.ones(shape, parameter_options(tensors, "weight")));
  bias = register_parameter("bias", torch.zeros(shape, parameter_options(tensors, "bias")));
}

Tensor GroupNormImpl::forward(const Tensor& x) const {
  return functional::group_norm(x, options.num_groups(), weight, bias, options.eps());
}

std::string BatchNormImpl::extra_repr() const {
  return fmt::format("{}, eps={}, momentum={}, affine={}, track_running_stats={}",
                     options.num_features(), repr(options.eps()), repr(options.momentum()),
                     repr(options.affine()), repr(options.track_running_stats()));
}

std::string GroupNormImpl::extra_repr() const {
  return fmt::format("{}, {}, eps={}, affine={}", options.num_groups(), options.num_channels(),
                     repr(options.eps()), repr(options.affine()));
}

std::string describe_pool(const Pair& kernel, const PoolOptions& options) {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr(kernel),
                     repr(options.stride.value_or(kernel)), repr(options.padding));
}

std::string AdaptiveAvgPool2dImpl::extra_repr() const {
  return "output_size=" + repr(output_size);
}

}  // namespace kernbench::nn
