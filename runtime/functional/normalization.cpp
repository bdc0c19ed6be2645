#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/fusion.h"

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

// Returns dx of rows, with g = dy weight, and r for the normalized rows:
//   dx = scale (g - mean(g) - r mean(g r)); without centering, the term mean(g) is left out.
tl::Tensor gradient_of_rows(tl::Context& tl, const Norm& norm, tl::Tensor g,
                            const Normalized& normalized) {
  const tl::Tensor along = normalized.rows * mean_of_rows(tl, g * normalized.rows);
  if (norm.centers) g = g - mean_of_rows(tl, g);
  return (g - along) * normalized.scale;
}

Tensor gradient_of_x(const Norm& norm, const Tensor& dy, const Tensor& x, const Tensor& weight) {
  std::vector<Tensor> operands = {dy, x};
  if (weight.defined()) operands.push_back(weight);
  const auto function = [norm, has_weight = weight.defined(), dtype = dy.dtype()](
                            tl::Context& tl, Blocks of, const RowBlock&) {
    tl::Tensor g = in_f32(tl, of[0]);
    if (has_weight) g = g * in_f32(tl, of[2]);
    return tl.cast(gradient_of_rows(tl, norm, std::move(g), Normalized::of(tl, of[1], norm)),
                   dtype);
  };
  return ops::map_rows(fmt::format("{}_backward", norm.name),
                       ops::elementwise_placement(norm.name, dy, x, ops::Linearity::each), operands,
                       ops::Owning(function));
}

struct Gradients {
  Tensor x;
  Tensor weight;
  Tensor bias;
};

// The kernel of a PE that adds up the gradients of parameters over its rows: of the weight, dy r,
// and of the bias, dy.  If gradients of x are wanted too, dy and x are loaded once for all.
class BackwardKernel {
 public:
  BackwardKernel(tl::Context& tl, const Norm& norm, const Tensor& dy, const Tensor& x,
                 const Tensor& weight, const Gradients& results)
      : tl_(tl), norm_(norm), dy_(dy), x_(x), results_(results) {
    n_ = of_x_.columns;
    if (results.x.defined() && weight.defined()) {
      weight_ = in_f32(tl, tl.load(ops::local_part(weight, tl).data, {1, n_}, weight.dtype()));
    }
  }

  void run() {
    // Sums and gradients of longer rows do not fit into scratch together.
    const bool is_one_pass = results_.x.defined() && n_ <= 2 * ops::block_elements(tl_);
    if (results_.x.defined() && !is_one_pass) {
      for_each_block(true, false);
      weight_.reset();
    }
    of_weight_ = tl_.zeros({1, n_}, DType::f32);
    if (results_.bias.defined()) of_bias_ = tl_.zeros({1, n_}, DType::f32);
    for_each_block(is_one_pass, true);
    store(results_.weight, of_weight_);
    if (results_.bias.defined()) store(results_.bias, of_bias_);
  }

 private:
  void for_each_block(bool gradients, bool sums) {
    ops::for_each_row_block(tl_, of_x_, [&](std::int64_t row, std::int64_t height) {
      const Shape shape{height, n_};
      const tl::Tensor g = in_f32(tl_, tl_.load(of_dy_.data + row * n_, shape, dy_.dtype()));
      const tl::Tensor block = tl_.load(of_x_.data + row * n_, shape, x_.dtype());
      const Normalized normalized = Normalized::of(tl_, block, norm_);
      if (gradients) {
        const tl::Tensor dx = gradient_of_rows(tl_, norm_, weight_ ? g * *weight_ : g, normalized);
        tl_.store(ops::local_part(results_.x, tl_).data + row * n_, tl_.cast(dx, dy_.dtype()));
      }
      if (!sums) return;
      of_weight_ = *of_weight_ + tl_.sum(g * normalized.rows, 0, {.keep_dims = true});
      if (results_.bias.defined()) of_bias_ = *of_bias_ + tl_.sum(g, 0, {.keep_dims = true});
    });
  }

  void store(const Tensor& result, const std::optional<tl::Tensor>& sum) {
    tl_.store(ops::local_part(result, tl_).data, tl_.cast(*sum, result.dtype()));
  }

  tl::Context& tl_;
  const Norm& norm_;
  const Tensor& dy_;
  const Tensor& x_;
  const Gradients& results_;
  const ops::LocalPart of_dy_ = ops::local_part(dy_, tl_);
  const ops::LocalPart of_x_ = ops::local_part(x_, tl_);
  std::int64_t n_ = 0;
  std::optional<tl::Tensor> weight_;
  std::optional<tl::Tensor> of_weight_;
  std::optional<tl::Tensor> of_bias_;
};

// The gradients of the parameters and, if `of_x`, of x, by one kernel.
Gradients gradients_of_all(const Norm& norm, const Tensor& dy, const Tensor& x,
                           const Tensor& weight, bool has_bias, bool of_x) {
  const std::int64_t n = x.shape()[x.shape().rank() - 1];
  const ops::Placement rows = ops::elementwise_placement(norm.name, dy, x, ops::Linearity::each);
  const auto sums = ops::by_level(rows, [](Level level) -> std::optional<Level> {
    return level.is_cut() ? ops::kPartial : level;
  });
  Gradients results;
  results.weight = ops::make_like(x, "weight.grad", {n}, x.dtype(), *sums);
  std::vector<Tensor> made{results.weight};
  if (has_bias) {
    results.bias = ops::make_like(x, "bias.grad", {n}, x.dtype(), *sums);
    made.push_back(results.bias);
  }
  const std::string name = fmt::format("{}_backward{}", norm.name, of_x ? "" : "_parameters");
  if (of_x) {
    results.x = ops::make_like(dy, name, dy.shape(), dy.dtype(), rows);
    made.push_back(results.x);
  }
  std::vector<Tensor> operands{dy, x};
  if (weight.defined()) operands.push_back(weight);
  ops::launch_on_rows(name, made, operands, n, [=](tl::Context& tl) {
    BackwardKernel(tl, norm, dy, x, weight, results).run();
  });
  return results;
}

struct Wanted {
  bool of_x = false;
  bool of_parameters = false;
  bool has_bias = false;
};

// A gradient of x whose value may be deferred is a kernel of its own, which joins others
// (fusion.h).
Gradients gradients(const Norm& norm, const Tensor& dy, const Tensor& x, const Tensor& weight,
                    const Wanted& wanted) {
  if (!wanted.of_parameters) return {gradient_of_x(norm, dy, x, weight), {}, {}};
  const bool is_own_kernel = wanted.of_x && ops::fusion_of(dy) != nullptr;
  Gradients all =
      gradients_of_all(norm, dy, x, weight, wanted.has_bias, wanted.of_x && !is_own_kernel);
  if (is_own_kernel) all.x = gradient_of_x(norm, dy, x, weight);
  return all;
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
       has_weight = weight.defined(),
       wanted = Wanted{needs_grad(x), needs_grad(weight, bias), bias.defined()}](const Tensor& dy) {
        const Gradients all =
            gradients(norm, dy, x.get(), has_weight ? weight.get() : Tensor(), wanted);
        return std::vector{all.x, all.weight, all.bias};
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
