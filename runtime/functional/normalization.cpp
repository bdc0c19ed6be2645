#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"

namespace kernbench::nn::functional {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::Level;
using ops::RowBlock;
using Blocks = std::span<const tl::Tensor>;

// Describes layer_norm (`centers`) or rms_norm.
struct Norm {
  std::string_view name;
  bool centers = true;
  double eps = 0;
};

// Returns the mean of each row: [rows, n] becomes [rows, 1].
tl::Tensor mean_of_rows(tl::Context& tl, const tl::Tensor& x) {
  return tl.sum(x, 1, {.keep_dims = true}) * (1 / static_cast<double>(x.shape()[1]));
}

// Rows in f32 with a mean square of 1 and, if it centers, a mean of 0.
struct Normalized {
  tl::Tensor rows;
  tl::Tensor scale;  // [rows, 1]: the factor of each row

  static Normalized of(tl::Context& tl, const tl::Tensor& block, const Norm& norm) {
    tl::Tensor x = tl.cast(block, DType::f32);
    if (norm.centers) x = x - mean_of_rows(tl, x);
    tl::Tensor scale = tl.rsqrt(mean_of_rows(tl, x * x) + norm.eps);
    return {x * scale, scale};
  }
};

tl::Tensor in_f32(tl::Context& tl, const tl::Tensor& x) {
  return tl.cast(x, DType::f32);
}

Tensor forward(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<Tensor> operands = {x};
  if (weight.defined()) operands.push_back(weight);
  if (bias.defined()) operands.push_back(bias);
  const auto function = [norm, has_weight = weight.defined(), has_bias = bias.defined(),
                         dtype = x.dtype()](tl::Context& tl, Blocks of, const RowBlock&) {
    tl::Tensor y = Normalized::of(tl, of[0], norm).rows;
    if (has_weight) y = y * in_f32(tl, of[1]);
    if (has_bias) y = y + in_f32(tl, of[of.size() - 1]);
    return tl.cast(y, dtype);
  };
  return ops::map_rows(norm.name, ops::placement_of(x), operands, ops::Owning(function));
}

// With g = dy weight, and r for the normalized rows:
//   dx = scale (g - mean(g) - r mean(g r)); without centering, the term mean(g) is left out.
Tensor gradient_of_x(const Norm& norm, const Tensor& dy, const Tensor& x, const Tensor& weight) {
  std::vector<Tensor> operands = {dy, x};
  if (weight.defined()) operands.push_back(weight);
  const auto function = [norm, has_weight = weight.defined(), dtype = dy.dtype()](
                            tl::Context& tl, Blocks of, const RowBlock&) {
    tl::Tensor g = in_f32(tl, of[0]);
    if (has_weight) g = g * in_f32(tl, of[2]);
    const Normalized normalized = Normalized::of(tl, of[1], norm);
    const tl::Tensor along = normalized.rows * mean_of_rows(tl, g * normalized.rows);
    if (norm.centers) g = g - mean_of_rows(tl, g);
    return tl.cast((g - along) * normalized.scale, dtype);
  };
  return ops::map_rows(fmt::format("{}_backward", norm.name),
                       ops::elementwise_placement(norm.name, dy, x, ops::Linearity::each), operands,
                       ops::Owning(function));
}

struct ParameterGradients {
  Tensor weight;
  Tensor bias;
};

// Returns the sums over all rows of dy r, the weight's gradient, and, where there is a bias, of dy.
ParameterGradients gradients_of_parameters(const Norm& norm, const Tensor& dy, const Tensor& x,
                                           bool has_bias) {
  const std::int64_t n = x.shape()[x.shape().rank() - 1];
  const auto placement = ops::by_level(
      ops::elementwise_placement(norm.name, dy, x, ops::Linearity::each),
      [](Level level) -> std::optional<Level> { return level.is_cut() ? ops::kPartial : level; });
  ParameterGradients result;
  result.weight = ops::make_like(x, "weight.grad", {n}, x.dtype(), *placement);
  std::vector<Tensor> results{result.weight};
  if (has_bias) {
    result.bias = ops::make_like(x, "bias.grad", {n}, x.dtype(), *placement);
    results.push_back(result.bias);
  }
  const auto body = [=](tl::Context& tl) {
    const ops::LocalPart of_dy = ops::local_part(dy, tl);
    const ops::LocalPart of_x = ops::local_part(x, tl);
    tl::Tensor of_weight = tl.zeros({1, n}, DType::f32);
    tl::Tensor of_bias = tl.zeros({1, n}, DType::f32);
    ops::for_each_row_block(tl, of_x, [&](std::int64_t row, std::int64_t height) {
      const Shape shape{height, n};
      const tl::Tensor g = in_f32(tl, tl.load(of_dy.data + row * n, shape, dy.dtype()));
      const tl::Tensor block = tl.load(of_x.data + row * n, shape, x.dtype());
      const tl::Tensor rows = Normalized::of(tl, block, norm).rows;
      of_weight = of_weight + tl.sum(g * rows, 0, {.keep_dims = true});
      if (has_bias) of_bias = of_bias + tl.sum(g, 0, {.keep_dims = true});
    });
    tl.store(ops::local_part(result.weight, tl).data, tl.cast(of_weight, x.dtype()));
    if (has_bias) {
      tl.store(ops::local_part(result.bias, tl).data, tl.cast(of_bias, x.dtype()));
    }
  };
  ops::launch_on_rows(fmt::format("{}_backward_parameters", norm.name), results, {dy, x}, n, body);
  return result;
}

void check(const Norm& norm, const Tensor& x, const Shape& normalized_shape,
           const Tensor& parameter, std::string_view name) {
  if (!parameter.defined()) return;
  if (parameter.shape() != normalized_shape) {
    ops::refuse_shapes(
        norm.name,
        fmt::format("Expected {} to be of same shape as normalized_shape, but got "
                    "{} of shape {} and normalized_shape = {}",
                    name, name, to_string(parameter.shape()), to_string(normalized_shape)));
  }
  ops::check_operands(norm.name, {x, parameter});
  const ops::Placement placement = ops::placement_of(parameter);
  if (placement.cube.is_replicate() && placement.pe.is_replicate()) return;
  ops::refuse_placements(norm.name, x, parameter, "every holder needs all of the parameter");
}

// Throws KB-F001, in torch's words, unless these are the last dimensions.
void check_ends_with(const Norm& norm, const Shape& shape, const Shape& end) {
  if (end.rank() == 0) {
    ops::refuse_shapes(
        norm.name,
        "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
        "least one element, but got normalized_shape = []");
  }
  if (shape.rank() >= end.rank() && std::equal(end.begin(), end.end(), shape.end() - end.rank())) {
    return;
  }
  ops::refuse_shapes(norm.name, fmt::format("Given normalized_shape={}, expected input with shape "
                                            "[*, {}], but got input of size{}",
                                            to_string(end), fmt::join(end.begin(), end.end(), ", "),
                                            to_string(shape)));
}

Tensor normalize(const Norm& norm, const Tensor& of, const Shape& normalized_shape,
                 const Tensor& weight, const Tensor& bias);

// The last dimensions count as one.
Tensor over_one_dimension(const Norm& norm, const Tensor& of, const Shape& normalized_shape,
                          const Tensor& weight, const Tensor& bias) {
  const Shape row{normalized_shape.numel()};
  std::vector<std::int64_t> sizes(of.shape().begin(), of.shape().end() - normalized_shape.rank());
  sizes.push_back(row[0]);
  const auto flat = [&](const Tensor& parameter, std::string_view name) {
    check(norm, of, normalized_shape, parameter, name);
    return parameter.defined() ? reshape(parameter, row) : parameter;
  };
  const Tensor y =
      normalize(norm, reshape(of, Shape(sizes)), row, flat(weight, "weight"), flat(bias, "bias"));
  return reshape(y, of.shape());
}

Tensor normalize(const Norm& norm, const Tensor& of, const Shape& normalized_shape,
                 const Tensor& weight, const Tensor& bias) {
  ops::check_operands(norm.name, {of});
  check_ends_with(norm, of.shape(), normalized_shape);
  if (normalized_shape.rank() > 1) {
    return over_one_dimension(norm, of, normalized_shape, weight, bias);
  }
  const Tensor x = contiguous(of);
  ops::check_has_whole_rows(norm.name, x);
  check(norm, x, normalized_shape, weight, "weight");
  check(norm, x, normalized_shape, bias, "bias");
  Tensor y = forward(norm, x, weight, bias);
  if (!needs_grad(x, weight, bias)) return y;
  const auto backward =
      [norm, x = SavedTensor(x), weight = weight.defined() ? SavedTensor(weight) : SavedTensor(),
       has_weight = weight.defined(), has_bias = bias.defined(), of_x = needs_grad(x),
       of_parameters = needs_grad(weight, bias)](const Tensor& dy) {
        const Tensor used = has_weight ? weight.get() : Tensor();
        ParameterGradients parameters;
        if (of_parameters) parameters = gradients_of_parameters(norm, dy, x.get(), has_bias);
        return std::vector{of_x ? gradient_of_x(norm, dy, x.get(), used) : Tensor(),
                           parameters.weight, parameters.bias};
      };
  return autograd::record(norm.name, std::move(y), {x, weight, bias}, backward);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  return normalize({"layer_norm", true, eps}, x, normalized_shape, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                std::optional<double> eps) {
  const double least = std::numeric_limits<float>::epsilon();
  return normalize({"rms_norm", false, eps.value_or(least)}, x, normalized_shape, weight, {});
}

}  // namespace kernbench::nn::functional
