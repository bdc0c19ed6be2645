#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/node.h"
#include "runtime/functional/elementwise_operator.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/tensor_storage.h"

namespace kernbench {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::DimensionSet;
using ops::Reduction;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A reduction is added as a row: what it computes, and how the gradient of x follows from x, the
// result and the result's gradient; the latter two have the reduced dimensions with size 1.
struct ReductionOperator {
  Reduction forward;
  Derivative derivative;  // numbers[0] is the number of elements that a result has
};

constexpr ReductionOperator kSum{
    ops::kSum,
    {[](const Elements& of) { return of.dy(); }, needs::kNothing, Computes::in_own_type}};

constexpr ReductionOperator kMean{
    {"mean", 0, true, ops::sum_of_block, ops::sum_of_both,
     [](tl::Context&, const tl::Tensor& sum, double count) { return sum / count; }},
    {[](const Elements& of) { return of.dy() / of.numbers[0]; }}};

constexpr ReductionOperator kNorm{
    {"norm", 0, false,
     [](tl::Context& tl, const tl::Tensor& block, int axis) {
       return ops::sum_of_block(tl, block * block, axis);
     },
     ops::sum_of_both, [](tl::Context& tl, const tl::Tensor& sum, double) { return tl.sqrt(sum); }},
    {[](const Elements& of) { return of.tl.where(of.y() == 0, 0, of.a() * (of.dy() / of.y())); },
     needs::kA | needs::kResult}};

constexpr Reduction kMost{
    "amax", -kInfinity, false,
    [](tl::Context& tl, const tl::Tensor& block, int axis) {
      return tl.max(block, axis, {.keep_dims = true});
    },
    [](tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) { return tl.maximum(a, b); }};

constexpr Reduction kLeast{
    "amin", kInfinity, false,
    [](tl::Context& tl, const tl::Tensor& block, int axis) {
      return tl.min(block, axis, {.keep_dims = true});
    },
    [](tl::Context& tl, const tl::Tensor& a, const tl::Tensor& b) { return tl.minimum(a, b); }};

// Elements of bool are 0 or 1, so any() is their largest and all() their smallest.
constexpr Reduction kAny{"any", 0, false, kMost.of_block, kMost.joined};
constexpr Reduction kAll{"all", 1, false, kLeast.of_block, kLeast.joined};

DimensionSet make_dimension_set(std::string_view name, const Tensor& x, const Dimensions& dims) {
  if (dims.numbers().empty()) return (DimensionSet{1} << x.shape().rank()) - 1;
  DimensionSet set = 0;
  for (const int dim : dims.numbers()) {
    if (ops::is_point(name, x, dim)) continue;
    const std::size_t dimension = ops::wrap_dimension(name, x, dim);
    if (ops::contains(set, dimension)) {
      ops::refuse_shapes(name,
                         fmt::format("dim {} appears multiple times in the list of dims", dim));
    }
    set |= DimensionSet{1} << dimension;
  }
  return set;
}

double count_elements(const Shape& shape, DimensionSet dimensions) {
  double count = 1;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (ops::contains(dimensions, d)) count *= static_cast<double>(shape[d]);
  }
  return count;
}

// Returns a result that has the reduced dimensions with size 1, with or without them.  Either way
// the reduction is what made it, by its name.
Tensor finished(std::string_view name, Tensor result, DimensionSet dimensions, bool keepdim) {
  if (keepdim || dimensions == 0) return result;
  std::vector<std::int64_t> sizes;
  for (std::size_t d = 0; d < result.shape().rank(); ++d) {
    if (!ops::contains(dimensions, d)) sizes.push_back(result.shape()[d]);
  }
  Tensor kept = reshape(result, Shape(sizes));
  if (const auto& meta = kept.storage()->autograd; meta != nullptr && meta->recorded != nullptr) {
    meta->recorded->name = name;
  }
  return kept;
}

// The gradient of x: dy and y repeat along the dimensions that were reduced.
Tensor compute_gradient(const ReductionOperator& op, const Tensor& dy, const Tensor& x,
                        const Tensor& y, const Shape& shape, const ops::Placement& of_x,
                        double count) {
  const unsigned needed = op.derivative.needs;
  std::vector<Tensor> operands{dy};
  if ((needed & needs::kA) != 0) operands.push_back(x);
  if ((needed & needs::kResult) != 0) operands.push_back(y);
  const auto function = ops::Owning(
      [&op, count, dtype = dy.dtype()](tl::Context& tl, std::span<const tl::Tensor> blocks) {
        std::vector<tl::Tensor> own(blocks.begin(), blocks.end());
        if (op.derivative.computes == Computes::in_f32) {
          for (tl::Tensor& block : own) block = tl.cast(block, DType::f32);
        }
        Elements elements{.tl = tl, .gradient = own.data(), .numbers = {count}};
        if (own.size() > 1) elements.operands[0] = &own[1];
        if (own.size() > 2) elements.result = &own[2];
        return tl.cast(op.derivative.of(elements), dtype);
      });
  return ops::map_to("expand", shape, dy.dtype(),
                     ops::gradient_placement(ops::placement_of(dy), of_x), operands, function);
}

Tensor reduce(const ReductionOperator& op, const Tensor& of, const Dimensions& dims, bool keepdim) {
  const Tensor x = contiguous(of);
  if (is_float8(x.dtype())) ops::check_is_floating(op.forward.name, x);
  ops::check_operands(op.forward.name, {x}, ops::Types::any);
  const DimensionSet dimensions = make_dimension_set(op.forward.name, x, dims);
  Tensor y = ops::reduced(x, op.forward, dimensions);
  if (!needs_grad(x)) return finished(op.forward.name, std::move(y), dimensions, keepdim);
  const auto saved = [&](unsigned what, const Tensor& tensor) {
    return (op.derivative.needs & what) != 0 ? SavedTensor(tensor) : SavedTensor();
  };
  const auto backward = [&op, x = saved(needs::kA, x), y = saved(needs::kResult, y),
                         shape = x.shape(), of_x = ops::placement_of(x),
                         count = count_elements(x.shape(), dimensions)](const Tensor& dy) {
    return std::vector{compute_gradient(op, dy, x.get(), y.get(), shape, of_x, count)};
  };
  return finished(op.forward.name, autograd::record(op.forward.name, y, {x}, backward), dimensions,
                  keepdim);
}

// Of u8 they are u8, as in torch, whose masks these were.
Tensor of_booleans(const Reduction& reduction, const Tensor& x, const Dimensions& dims,
                   bool keepdim) {
  const Tensor result = reduce({reduction, {}}, x != 0, dims, keepdim);
  return x.dtype() == DType::u8 ? result.to(DType::u8) : result;
}

// Throws KB-F001, in torch's words, if there is nothing to choose from.
void check_has_elements(std::string_view name, const Tensor& x, const Dimensions& dims) {
  if (dims.numbers().empty() && x.numel() == 0) {
    ops::refuse_shapes(name,
                       fmt::format("{}(): Expected reduction dim to be specified for input.numel() "
                                   "== 0. Specify the reduction dim with the 'dim' argument.",
                                   name));
  }
  for (const int dim : dims.numbers()) {
    if (x.dim() == 0 || x.size(dim) > 0) continue;
    ops::refuse_shapes(
        name, fmt::format("{}(): Expected reduction dim {} to have non-zero size.", name, dim));
  }
}

// The elements that equal the result share its gradient.
Tensor reduce_to_extreme(const Reduction& reduction, const Tensor& of, const Dimensions& dims,
                         bool keepdim) {
  const Tensor x = contiguous(of);
  if (is_float8(x.dtype())) ops::check_is_floating(reduction.name, x);
  ops::check_operands(reduction.name, {x}, ops::Types::any);
  const DimensionSet dimensions = make_dimension_set(reduction.name, x, dims);
  check_has_elements(reduction.name, x, dims);
  Tensor y = ops::reduced(x, reduction, dimensions);
  if (!needs_grad(x)) return finished(reduction.name, std::move(y), dimensions, keepdim);
  const auto backward = [x = SavedTensor(x), y = SavedTensor(y), dimensions](const Tensor& dy) {
    const Tensor is_chosen = (x.get().detach() == y.get()).to(dy.dtype());
    return std::vector{is_chosen * (dy / ops::reduced(is_chosen, ops::kSum, dimensions))};
  };
  return finished(reduction.name, autograd::record(reduction.name, y, {x}, backward), dimensions,
                  keepdim);
}

}  // namespace

Tensor sum(const Tensor& x, const Dimensions& dims, bool keepdim) {
  return reduce(kSum, x, dims, keepdim);
}
Tensor mean(const Tensor& x, const Dimensions& dims, bool keepdim) {
  if (is_integral(x.dtype())) {
    ops::refuse_type("mean",
                     fmt::format("mean(): could not infer output dtype. Input dtype must be either "
                                 "a floating point or complex dtype. Got: {}",
                                 torch_name_of(x.dtype())));
  }
  return reduce(kMean, x, dims, keepdim);
}
Tensor amax(const Tensor& x, const Dimensions& dims, bool keepdim) {
  return reduce_to_extreme(kMost, x, dims, keepdim);
}
Tensor amin(const Tensor& x, const Dimensions& dims, bool keepdim) {
  return reduce_to_extreme(kLeast, x, dims, keepdim);
}
Tensor max(const Tensor& x) {
  check_has_elements("max", x, {});
  return amax(x);
}
Tensor min(const Tensor& x) {
  check_has_elements("min", x, {});
  return amin(x);
}

Tensor any(const Tensor& x, const Dimensions& dims, bool keepdim) {
  return of_booleans(kAny, x, dims, keepdim);
}
Tensor all(const Tensor& x, const Dimensions& dims, bool keepdim) {
  return of_booleans(kAll, x, dims, keepdim);
}

Tensor norm(const Tensor& x, double p, const Dimensions& dims, bool keepdim) {
  if (is_integral(x.dtype())) {
    ops::refuse_type("norm",
                     fmt::format("norm(): input dtype should be either floating point or complex. "
                                 "Got {} instead.",
                                 torch_name_of(x.dtype())));
  }
  if (p == 2) return reduce(kNorm, x, dims, keepdim);
  if (p == 1) return sum(abs(x), dims, keepdim);
  if (p == kInfinity) return amax(abs(x), dims, keepdim);
  if (p == -kInfinity) return amin(abs(x), dims, keepdim);
  if (p == 0) return sum(abs(sign(x)), dims, keepdim);
  // The root of 0 has no slope, so that 1 takes its place.
  const Tensor total = sum(pow(abs(x.to(DType::f32)), p), dims, keepdim);
  const Tensor is_zero = total.detach() == 0;
  const double root = p > 0 ? 0 : kInfinity;
  return where(is_zero, root, pow(where(is_zero, 1, total), 1 / p)).to(x.dtype());
}

}  // namespace kernbench
