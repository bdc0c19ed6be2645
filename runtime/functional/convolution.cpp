// Convolutions and pooling: windows of the input as rows of a matrix, and what is made of them.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "runtime/functional/functional.h"
#include "runtime/functional/ids.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"

namespace kernbench::nn::functional {

namespace {

struct WindowForm {
  Pair kernel;
  Pair stride;
  Pair padding;
  Pair dilation;
};

// Applies a function of a batch, of this many dimensions, to one, or to a sample without the first.
// Throws KB-F001, in torch's words, for an x of other dimensions.
template <class Function>
Tensor with_batch(std::string_view name, const Tensor& x, std::int64_t dimensions,
                  const Function& function) {
  ops::check_operands(name, {x});
  if (x.dim() == dimensions) return function(x);
  if (x.dim() == dimensions - 1) return squeeze(function(unsqueeze(x, 0)), 0);
  ops::refuse_shapes(name, fmt::format("Expected {}D (unbatched) or {}D (batched) input to {}, but "
                                       "got input of size: {}",
                                       dimensions - 1, dimensions, name, to_string(x.shape())));
}

void check_form(std::string_view name, const Tensor& x, const WindowForm& form) {
  const auto is_below = [](const Pair& pair, std::int64_t least) {
    return std::min(pair.height, pair.width) < least;
  };
  if (is_below(form.kernel, 1) || is_below(form.stride, 1) || is_below(form.dilation, 1) ||
      is_below(form.padding, 0)) {
    ops::refuse_shapes(name,
                       "kernel sizes, strides and dilations must be positive, and padding "
                       "must not be negative");
  }
  const auto check = [&](std::int64_t size, std::int64_t padding, std::int64_t kernel,
                         std::int64_t dilation) {
    const std::int64_t span = dilation * (kernel - 1) + 1;
    if (size + 2 * padding >= span) return;
    ops::refuse_shapes(name, fmt::format("Calculated padded input size per channel: {}. Kernel "
                                         "size: {}. Kernel size can't be greater than actual input "
                                         "size",
                                         size + 2 * padding, span));
  };
  check(x.size(2), form.padding.height, form.kernel.height, form.dilation.height);
  check(x.size(3), form.padding.width, form.kernel.width, form.dilation.width);
}

Tensor windows_along(const Tensor& x, int dim, std::int64_t kernel, std::int64_t stride,
                     std::int64_t dilation) {
  const Tensor spans = unfold(x, dim, dilation * (kernel - 1) + 1, stride);
  return dilation == 1 ? spans : slice(spans, -1, 0, spans.size(-1), dilation);
}

// The elements of each window: [n, c, h, w] gives a view [n, c, rows, columns, height, width] of x
// or, where there is padding, of a copy with `filler` around it.
Tensor make_windows(std::string_view name, const Tensor& x, const WindowForm& form,
                    const Scalar& filler = 0) {
  check_form(name, x, form);
  const Pair& by = form.padding;
  const bool is_padded = by.height > 0 || by.width > 0;
  const Tensor padded = is_padded ? pad(x, {by.width, by.width, by.height, by.height}, filler) : x;
  const Tensor rows =
      windows_along(padded, 2, form.kernel.height, form.stride.height, form.dilation.height);
  return windows_along(rows, 3, form.kernel.width, form.stride.width, form.dilation.width);
}

void check_convolution(std::string_view name, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, std::int64_t groups) {
  ops::check_operands(name, {x, weight}, ops::Types::factors);
  if (groups <= 0) ops::refuse_shapes(name, "non-positive groups is not supported");
  if (weight.size(0) % groups != 0 || weight.size(1) * groups != x.size(1)) {
    ops::refuse_shapes(
        name, fmt::format("Given groups={}, weight of size {}, expected input{} to have {} "
                          "channels, but got {} channels instead",
                          groups, to_string(weight.shape()), to_string(x.shape()),
                          weight.size(1) * groups, x.size(1)));
  }
  if (bias.defined() && bias.shape() != Shape{weight.size(0)}) {
    ops::refuse_shapes(
        name, fmt::format("Given weight of size {}, expected bias to be "
                          "1-dimensional with {} elements, but got bias of size {} "
                          "instead",
                          to_string(weight.shape()), weight.size(0), to_string(bias.shape())));
  }
}

// One product for all groups: [n, g c, rows, columns, h, w] with [g o, c, h, w] gives
// [n, g o, rows, columns].
Tensor product_by_groups(const Tensor& windows, const Tensor& weight, std::int64_t groups) {
  const std::int64_t n = windows.size(0);
  const std::int64_t rows = windows.size(2);
  const std::int64_t columns = windows.size(3);
  const std::int64_t depth = weight.numel() / weight.size(0);
  const std::int64_t outputs = weight.size(0) / groups;
  const Tensor patches = unflatten(windows, 1, {groups, -1}).permute({1, 0, 3, 4, 2, 5, 6});
  const Tensor y = matmul(reshape(patches, {groups, n * rows * columns, depth}),
                          reshape(weight, {groups, outputs, depth}), {.transpose_b = true});
  return reshape(permute(reshape(y, {groups, n, rows, columns, outputs}), {1, 0, 4, 2, 3}),
                 {n, groups * outputs, rows, columns});
}

Tensor convolved(std::string_view name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                 const WindowForm& form, std::int64_t groups) {
  const Tensor windows = make_windows(name, x, form);
  if (groups > 1) {
    const Tensor y = product_by_groups(windows, weight, groups);
    return bias.defined() ? y + reshape(bias, {1, -1, 1, 1}) : y;
  }
  const std::int64_t outputs = weight.size(0);
  const std::int64_t n = windows.size(0);
  const std::int64_t rows = windows.size(2);
  const std::int64_t columns = windows.size(3);
  const Tensor patches =
      reshape(permute(windows, {0, 2, 3, 1, 4, 5}), {n * rows * columns, weight.numel() / outputs});
  const Tensor y = linear(patches, reshape(weight, {outputs, -1}), bias);
  return contiguous(permute(reshape(y, {n, rows, columns, outputs}), {0, 3, 1, 2}));
}

void check_weight(std::string_view name, const Tensor& x, const Tensor& weight,
                  std::int64_t dimensions) {
  ops::check_holders(name, {x, weight});
  if (weight.dim() == dimensions) return;
  ops::refuse_shapes(name, fmt::format("Expected a weight of {} dimensions, [out, channels, ...], "
                                       "but got {}",
                                       dimensions, to_string(weight.shape())));
}

Tensor conv2d_of_batch(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvOptions& options) {
  check_convolution("conv2d", x, weight, bias, options.groups);
  const WindowForm form{
      {weight.size(2), weight.size(3)}, options.stride, options.padding, options.dilation};
  return convolved("conv2d", x, weight, bias, form, options.groups);
}

Tensor conv1d_of_batch(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const ConvOptions& options) {
  const Tensor image = unsqueeze(x, 2);
  const Tensor kernel = unsqueeze(weight, 2);
  check_convolution("conv1d", image, kernel, bias, options.groups);
  const WindowForm form{{1, weight.size(2)},
                        {1, options.stride.width},
                        {0, options.padding.width},
                        {1, options.dilation.width}};
  return squeeze(convolved("conv1d", image, kernel, bias, form, options.groups), 2);
}

Tensor unfold_batch(const Tensor& x, const Pair& kernel_size, const ConvOptions& options) {
  const Tensor windows =
      make_windows("unfold", x, {kernel_size, options.stride, options.padding, options.dilation});
  const std::int64_t depth = x.size(1) * kernel_size.height * kernel_size.width;
  return reshape(permute(windows, {0, 1, 4, 5, 2, 3}), {x.size(0), depth, -1});
}

// The elements of each window of a pool in the last two dimensions.
Tensor pool_windows(std::string_view name, const Tensor& x, const Pair& kernel_size,
                    const PoolOptions& options, const Scalar& filler) {
  return make_windows(name, x,
                      {kernel_size, options.stride.value_or(kernel_size), options.padding, {1, 1}},
                      filler);
}

Tensor largest_of_windows(const Tensor& x, const Pair& kernel_size, const PoolOptions& options) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  const Tensor windows =
      flatten(pool_windows("max_pool2d", x, kernel_size, options, kLeast), -2, -1);
  const Tensor is_largest =
      unsqueeze(argmax(windows.detach(), -1), -1) == numbers_beside(windows, windows.size(-1));
  return sum(where(is_largest, windows, 0), -1);
}

// The means of `count` windows along a dimension, which overlap or repeat where their number does
// not divide its size.
Tensor means_along(const Tensor& x, int dim, std::int64_t count) {
  const std::int64_t size = x.size(dim);
  std::vector<Tensor> means;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t start = i * size / count;
    const std::int64_t end = ((i + 1) * size + count - 1) / count;
    means.push_back(mean(narrow(x, dim, start, end - start), dim, true));
  }
  return cat(means, dim);
}

Tensor adaptive_means(const Tensor& x, const Pair& size) {
  constexpr std::string_view kName = "adaptive_avg_pool2d";
  if (size.height <= 0 || size.width <= 0) {
    ops::refuse_shapes(kName,
                       fmt::format("adaptive_avg_pool2d: elements of output_size must be "
                                   "greater than or equal to 0 but received {{{}, {}}}; here "
                                   "they must be positive",
                                   size.height, size.width));
  }
  for (int d = 1; d < 4; ++d) {
    if (x.size(d) > 0) continue;
    ops::refuse_shapes(kName, fmt::format("adaptive_avg_pool2d(): Expected input to have non-zero "
                                          "size for non-batch dimensions, but input has sizes {} "
                                          "with dimension {} being empty",
                                          to_string(x.shape()), d));
  }
  if (x.size(2) % size.height == 0 && x.size(3) % size.width == 0) {
    return avg_pool2d(x, {x.size(2) / size.height, x.size(3) / size.width});
  }
  const Tensor rows = means_along(x.to(DType::f32), 2, size.height);
  return means_along(rows, 3, size.width).to(x.dtype());
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  check_weight("conv2d", x, weight, 4);
  return with_batch("conv2d", x, 4, [&](const Tensor& batch) {
    return conv2d_of_batch(batch, weight, bias, options);
  });
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  check_weight("conv1d", x, weight, 3);
  return with_batch("conv1d", x, 3, [&](const Tensor& batch) {
    return conv1d_of_batch(batch, weight, bias, options);
  });
}

Tensor unfold(const Tensor& x, const Pair& kernel_size, const ConvOptions& options) {
  return with_batch("unfold", x, 4,
                    [&](const Tensor& batch) { return unfold_batch(batch, kernel_size, options); });
}

Tensor max_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options) {
  return with_batch("max_pool2d", x, 4, [&](const Tensor& batch) {
    return largest_of_windows(batch, kernel_size, options);
  });
}

Tensor avg_pool2d(const Tensor& x, const Pair& kernel_size, const PoolOptions& options) {
  return with_batch("avg_pool2d", x, 4, [&](const Tensor& batch) {
    return mean(pool_windows("avg_pool2d", batch, kernel_size, options, 0), {-2, -1});
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Pair& output_size) {
  return with_batch("adaptive_avg_pool2d", x, 4,
                    [&](const Tensor& batch) { return adaptive_means(batch, output_size); });
}

}  // namespace kernbench::nn::functional
