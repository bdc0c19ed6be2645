// Normalization over other dimensions than the last: batches and groups of channels.

#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench::nn::functional {

namespace {

// One number for each channel beside x [n, c, ...].
Tensor by_channel(const Tensor& numbers, const Tensor& x) {
  std::vector<std::int64_t> sizes(x.shape().rank(), 1);
  sizes[1] = numbers.numel();
  return reshape(numbers, Shape(sizes));
}

void check_channels(std::string_view name, const Tensor& x, const Tensor& numbers,
                    std::string_view what) {
  if (!numbers.defined()) return;
  ops::check_operands(name, {numbers}, ops::Types::any);
  if (numbers.shape() == Shape{x.size(1)}) return;
  ops::refuse_shapes(
      name, fmt::format("{} should contain {} elements not {}", what, x.size(1), numbers.numel()));
}

Tensor with_affine(const Tensor& y, const Tensor& weight, const Tensor& bias) {
  const Tensor scaled = weight.defined() ? y * by_channel(weight, y) : y;
  return bias.defined() ? scaled + by_channel(bias, scaled) : scaled;
}

// Sums over all dimensions but the channels'.
Tensor mean_of_channels(const Tensor& x) {
  Tensor y = mean(flatten(transpose(x, 0, 1), 1), 1);  // [c]
  return by_channel(y, x);
}

struct Statistics {
  Tensor mean;      // one element for each channel, as by_channel() has them
  Tensor variance;  // with the number of elements as its divisor
};

Statistics compute_statistics(const Tensor& x) {
  const std::int64_t count = x.numel() / std::max<std::int64_t>(x.size(1), 1);
  if (count <= 1) {
    ops::refuse_shapes("batch_norm",
                       fmt::format("Expected more than 1 value per channel when training, got "
                                   "input size {}",
                                   to_string(x.shape())));
  }
  const Tensor center = mean_of_channels(x);
  return {center, mean_of_channels(square(x - center))};
}

// running = running + momentum (of the batch - running), with the unbiased variance.
void update(const Statistics& of_batch, std::int64_t count, const Tensor& running_mean,
            const Tensor& running_var, double momentum) {
  const NoGradGuard no_grad(*of_batch.mean.storage()->simulation);
  const double unbiased = static_cast<double>(count) / static_cast<double>(count - 1);
  const auto moved = [&](const Tensor& running, const Tensor& to) {
    if (running.defined()) running.lerp_(flatten(to).to(running.dtype()), momentum);
  };
  moved(running_mean, of_batch.mean);
  moved(running_var, of_batch.variance * unbiased);
}

}  // namespace

Tensor batch_norm(const Tensor& of, const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormOptions& options) {
  ops::check_operands("batch_norm", {of});
  if (of.dim() < 2) {
    ops::refuse_shapes("batch_norm",
                       fmt::format("expected at least 2D input (got {}D input)", of.dim()));
  }
  ops::check_is_uncut("batch_norm", of, 1);
  if (options.training) ops::check_is_uncut("batch_norm", of, 0);
  check_channels("batch_norm", of, running_mean, "running_mean");
  check_channels("batch_norm", of, running_var, "running_var");
  check_channels("batch_norm", of, options.weight, "weight");
  check_channels("batch_norm", of, options.bias, "bias");
  const Tensor x = of.to(DType::f32);
  Statistics statistics;
  if (options.training) {
    statistics = compute_statistics(x);
    update(statistics, x.numel() / x.size(1), running_mean, running_var, options.momentum);
  } else {
    if (!running_mean.defined() || !running_var.defined()) {
      ops::refuse_shapes("batch_norm",
                         "Expected running_mean and running_var to be defined when "
                         "training=False");
    }
    statistics = {by_channel(running_mean, x), by_channel(running_var, x)};
  }
  const Tensor y = (x - statistics.mean) * rsqrt(statistics.variance + options.eps);
  return with_affine(y, options.weight, options.bias).to(of.dtype());
}

Tensor group_norm(const Tensor& x, std::int64_t num_groups, const Tensor& weight,
                  const Tensor& bias, double eps) {
  ops::check_operands("group_norm", {x});
  if (x.dim() < 2 || num_groups <= 0 || x.size(1) % num_groups != 0) {
    ops::refuse_shapes("group_norm", fmt::format("Expected number of channels in input to be "
                                                 "divisible by num_groups, but got input of shape "
                                                 "{} and num_groups={}",
                                                 to_string(x.shape()), num_groups));
  }
  check_channels("group_norm", x, weight, "weight");
  check_channels("group_norm", x, bias, "bias");
  const std::int64_t rows = x.size(0) * num_groups;
  const std::int64_t columns = rows == 0 ? 0 : x.numel() / rows;
  const Tensor y = layer_norm(reshape(x.to(DType::f32), {rows, columns}), {columns}, {}, {}, eps);
  return with_affine(reshape(y, x.shape()), weight, bias).to(x.dtype());
}

Tensor normalize(const Tensor& x, const NormalizeOptions& options) {
  return x / clamp(norm(x, options.p, options.dim, true), options.eps);
}

}  // namespace kernbench::nn::functional
