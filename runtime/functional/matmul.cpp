#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/kept_results.h"
#include "runtime/functional/matmul_across_pes.h"
#include "runtime/functional/matmul_kernel.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/strided_view.h"

namespace kernbench {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::GemmOperands;
using ops::Level;

// The role of an operand's dimension in the product.
enum class Role { batch, rows, depth, columns };

Role role_in_a(const GemmOperands& operands, std::size_t dimension) {
  const std::size_t rank = operands.a.shape().rank();
  if (dimension + 1 == rank) return operands.transpose_a ? Role::rows : Role::depth;
  if (!operands.is_folded && dimension + 2 < rank) return Role::batch;
  return operands.transpose_a ? Role::depth : Role::rows;
}

Role role_in_b(const GemmOperands& operands, std::size_t dimension) {
  const std::size_t rank = operands.b.shape().rank();
  if (dimension + 1 == rank) return operands.transpose_b ? Role::depth : Role::columns;
  if (!operands.is_folded && dimension + 2 < rank) return Role::batch;
  return operands.transpose_b ? Role::columns : Role::depth;
}

// Returns the placement of the product of two parts on one level; `rank` is its number of
// dimensions.
std::optional<Level> level_of_product(const GemmOperands& operands, std::size_t rank,
                                      const Level& a, const Level& b) {
  if (a.is_partial() || b.is_partial()) {
    const Level& other = a.is_partial() ? b : a;
    return other.is_replicate() ? std::optional(ops::kPartial) : std::nullopt;
  }
  if (a.is_replicate() && b.is_replicate()) return ops::kReplicate;
  // Every holder has all of an operand that repeats along the batch.
  const auto cuts_batch = [&](const Level& level, const Tensor& other) {
    return !operands.is_folded && rank > 2 && level == ops::cut(0) &&
           runtime::repeats_along(other, 0);
  };
  if (b.is_replicate() && cuts_batch(a, operands.b)) return a;
  if (a.is_replicate() && cuts_batch(b, operands.a)) return b;
  const std::size_t rows = operands.is_folded ? 0 : rank - 2;
  if (b.is_replicate()) {
    const bool cuts_rows = role_in_a(operands, a.dimension) == Role::rows;
    return cuts_rows ? std::optional(ops::cut(rows)) : std::nullopt;
  }
  const Role role = role_in_b(operands, b.dimension);
  if (a.is_replicate()) {
    return role == Role::columns ? std::optional(ops::cut(rank - 1)) : std::nullopt;
  }
  if (role != role_in_a(operands, a.dimension)) return std::nullopt;
  if (role == Role::batch) return ops::cut(0);
  return role == Role::depth ? std::optional(ops::kPartial) : std::nullopt;
}

// Returns the placement of a product.  A shared factor counts as replicated, since every PE reads
// all of it.
ops::Placement placement_of_product(const GemmOperands& operands, std::size_t rank) {
  const auto as_read = [](const Tensor& factor) {
    ops::Placement placement = ops::placement_of(factor);
    if (std::exchange(placement.is_shared, false)) placement.cube = placement.pe = ops::kReplicate;
    return placement;
  };
  const auto placement = ops::by_level(
      as_read(operands.a), as_read(operands.b),
      [&](const Level& a, const Level& b) { return level_of_product(operands, rank, a, b); });
  if (placement) return *placement;
  ops::refuse_placements(
      operands.name(), operands.a, operands.b,
      "on each level one operand may be cut along what the other has not, both along what is "
      "summed over or along the batch, or one be partial beside a replicated one");
}

bool is_shared(const Tensor& factor) {
  return ops::placement_of(factor).is_shared;
}

// The result lies as `wanted`, if given: a shared factor's gradient, of which each PE computes its
// rows from other PEs' parts of a and b; of a turned factor the rows of what it was turned from.
// REQUIRES: the shapes fit
Tensor product(const GemmOperands& operands, const Shape& shape,
               const std::optional<ops::Placement>& wanted = {}) {
  const auto is_turned = [](const ops::Level& level) { return level == ops::cut(1); };
  if (wanted && (is_turned(wanted->cube) || is_turned(wanted->pe))) {
    const auto turned = ops::by_level(*wanted, [](Level level) {
      return std::optional(level.is_cut() ? ops::cut(1 - level.dimension) : level);
    });
    const GemmOperands swapped{
        operands.b,         operands.a,    !operands.transpose_b, !operands.transpose_a,
        operands.is_folded, operands.alpha};
    return transpose(product(swapped, {shape[1], shape[0]}, turned), 0, 1);
  }
  const bool crosses_pes = wanted || is_shared(operands.a) || is_shared(operands.b);
  if (crosses_pes && !operands.is_folded) {
    ops::refuse_placements(operands.name(), operands.a, operands.b,
                           "a shared matrix is no factor of a batch of matrices");
  }
  const ops::Placement placement = wanted ? *wanted : placement_of_product(operands, shape.rank());
  Tensor c = ops::make_like(operands.a, operands.name(), shape, operands.a.dtype(), placement);
  if (operands.bias.defined()) {
    ops::elementwise_placement(operands.name(), c, operands.bias, ops::Linearity::together);
  }
  const bool is_sum_of_nothing = operands.depth() == 0;
  if (crosses_pes && !is_sum_of_nothing) {
    ops::gemm_across_pes(c, operands);
  } else {
    ops::gemm_into(c, operands);
  }
  return c;
}

// Returns the sizes before the last two.
std::span<const std::int64_t> batch_of(const Tensor& x) {
  return x.shape().sizes().first(x.shape().rank() - 2);
}

Shape with_matrix(std::span<const std::int64_t> front, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> sizes(front.begin(), front.end());
  sizes.insert(sizes.end(), {rows, columns});
  return Shape(sizes);
}

// Returns the shape of the product.  Throws KB-F001, in torch's words, if there is none.
Shape check_shapes(const GemmOperands& operands) {
  const Shape& a = operands.a.shape();
  const Shape& b = operands.b.shape();
  const bool is_batched = b.rank() > 2;
  const auto size = [](const Shape& shape, bool is_last) {
    return shape[shape.rank() - (is_last ? 1 : 2)];
  };
  const std::int64_t rows = size(a, operands.transpose_a);
  const std::int64_t depth = size(a, !operands.transpose_a);
  const std::int64_t depth_of_b = size(b, operands.transpose_b);
  const std::int64_t columns = size(b, !operands.transpose_b);
  const auto batch = batch_of(operands.a);
  const std::int64_t count =
      std::accumulate(batch.begin(), batch.end(), std::int64_t{1}, std::multiplies());
  const auto refuse = [&](const std::string& text, std::string_view wanted) {
    ops::refuse_shapes(
        operands.name(),
        fmt::format("{}: '{}' {}{} and '{}' {}{}; {} is wanted", text, operands.a.name(),
                    to_string(a), operands.transpose_a ? " transposed" : "", operands.b.name(),
                    to_string(b), operands.transpose_b ? " transposed" : "", wanted));
  };
  if (!is_batched && operands.transpose_a && a.rank() > 2) {
    refuse("mat1 and mat2 shapes cannot be multiplied",
           "an a of two dimensions, where it is transposed");
  }
  if (depth != depth_of_b && is_batched) {
    refuse(fmt::format("Expected size for first two dimensions of batch2 tensor to be: [{0}, {1}] "
                       "but got: [{0}, {2}].",
                       count, depth, depth_of_b),
           "[..., m, k] and [..., k, n]");
  }
  if (depth != depth_of_b) {
    refuse(fmt::format("mat1 and mat2 shapes cannot be multiplied ({}x{} and {}x{})", count * rows,
                       depth, depth_of_b, columns),
           "[m, k] and [k, n]");
  }
  return with_matrix(batch, rows, columns);
}

// Throws KB-F001 unless the bias is a vector of `columns` elements.
void check_bias(const GemmOperands& operands, std::int64_t columns) {
  if (!operands.bias.defined() || operands.bias.shape() == Shape{columns}) return;
  ops::refuse_shapes(operands.name(),
                     fmt::format("input '{}' is {}; beside a product with {} "
                                 "columns, {} is wanted",
                                 operands.bias.name(), to_string(operands.bias.shape()), columns,
                                 to_string(Shape{columns})));
}

// A factor's shape and placement, as far as the backward pass needs them.
struct FactorForm {
  Shape shape;                                // in the product
  std::optional<ops::Placement> wanted = {};  // of its gradient, if it is shared
};

std::optional<ops::Placement> gradient_wanted(const ops::Placement& of_factor) {
  return of_factor.is_shared ? std::optional(of_factor) : std::nullopt;
}

FactorForm form_of(const Tensor& factor) {
  return {factor.shape(), gradient_wanted(ops::placement_of(factor))};
}

// Here op(x) is x or its transpose: the gradient of op(a) is dc op(b)^T, that of op(b) is op(a)^T
// dc.
Tensor gradient_of_a(const GemmOperands& of, const Tensor& dc, const FactorForm& a) {
  if (of.transpose_a)
    return product({of.b, dc, of.transpose_b, true, of.is_folded, of.alpha}, a.shape, a.wanted);
  return product({dc, of.b, false, !of.transpose_b, of.is_folded, of.alpha}, a.shape, a.wanted);
}
Tensor gradient_of_b(const GemmOperands& of, const Tensor& dc, const FactorForm& b) {
  if (of.transpose_b)
    return product({dc, of.a, true, of.transpose_a, of.is_folded, of.alpha}, b.shape, b.wanted);
  return product({of.a, dc, !of.transpose_a, false, of.is_folded, of.alpha}, b.shape, b.wanted);
}

// Returns x with these sizes in front of its matrices, as a view in which x repeats; x itself where
// they are undefined or its own.
Tensor with_batch(const Tensor& x, const std::optional<Shape>& batch) {
  if (!batch) return x;
  const Shape shape = with_matrix(batch->sizes(), x.size(-2), x.size(-1));
  return x.shape() == shape ? x : expand(x.detach(), {shape.begin(), shape.end()});
}

Tensor multiply(const Tensor& of_a, const Tensor& of_b, const MatmulOptions& options,
                const Tensor& bias = {}) {
  const bool is_folded = of_b.dim() <= 2;
  const Tensor a = ops::is_read_in_place(of_a, is_folded) ? of_a : contiguous(of_a);
  const Tensor b = ops::is_read_in_place(of_b, is_folded) ? of_b : contiguous(of_b);
  std::optional<Shape> batch;
  if (!is_folded) batch = ops::broadcast_sizes("matmul", Shape(batch_of(a)), Shape(batch_of(b)));
  const GemmOperands operands{with_batch(a, batch),
                              with_batch(b, batch),
                              options.transpose_a,
                              options.transpose_b,
                              is_folded,
                              options.alpha,
                              bias};
  const Shape shape = check_shapes(operands);
  ops::check_operands(operands.name(), {a, b}, ops::Types::factors);
  check_bias(operands, shape[shape.rank() - 1]);
  Tensor c = autograd::kept_or_computed(operands.name(), {a, b}, [&] {
    return std::vector{product(operands, shape)};
  }).front();
  if (!needs_grad(a, b, operands.bias)) return c;
  const Tensor none;
  GemmOperands form = operands;  // without tensors
  form.a = form.b = form.bias = none;
  const auto backward = [form, batch, a = SavedTensor(needs_grad(b) ? a : none),
                         b = SavedTensor(needs_grad(a) ? b : none), shape_of_a = a.shape(),
                         shape_of_b = b.shape(), in_a = form_of(operands.a),
                         in_b = form_of(operands.b), of_a = needs_grad(a), of_b = needs_grad(b),
                         of_bias = needs_grad(operands.bias)](const Tensor& dc,
                                                              const autograd::AskedInputs& asked) {
    std::vector<Tensor> gradients(3);  // in the order of the inputs
    GemmOperands of = form;
    if (of_a && asked.contains(1)) {
      of.b = with_batch(b.get(), batch);
      gradients[1] = ops::sum_to(shape_of_a, gradient_of_a(of, dc, in_a));
    }
    if (of_b && asked.contains(2)) {
      of.a = with_batch(a.get(), batch);
      gradients[2] = ops::sum_to(shape_of_b, gradient_of_b(of, dc, in_b));
    }
    if (of_bias && asked.contains(0)) gradients[0] = ops::sum_of_rows(dc);
    return gradients;
  };
  // The bias comes first, as in torch: so do its hooks.
  return autograd::record(operands.name(), std::move(c), {operands.bias, a, b}, backward);
}

// Throws KB-F001, in torch's words, for the product of x and a vector of another size.
void check_vector(std::string_view name, const Tensor& x, const Tensor& vector) {
  const Shape& shape = x.shape();
  const std::int64_t depth = shape[shape.rank() - 1];
  const std::int64_t size = vector.shape()[0];
  if (depth == size) return;
  if (shape.rank() == 1) {
    ops::refuse_shapes(
        name, fmt::format("inconsistent tensor size, expected tensor {} and src {} to have the "
                          "same number of elements, but got {} and {} elements respectively",
                          to_string(shape), to_string(vector.shape()), depth, size));
  }
  const std::int64_t rows = depth == 0 ? 0 : shape.numel() / depth;
  ops::refuse_shapes(name, fmt::format("size mismatch, got {0}, {0}x{1},{2}: '{3}' {4} and '{5}' "
                                       "{6}; a vector of {1} elements is wanted",
                                       rows, depth, size, x.name(), to_string(shape), vector.name(),
                                       to_string(vector.shape())));
}

// Throws KB-F001 unless the operands' numbers of dimensions are those of the operator.
void check_fits(std::string_view name, bool fits, std::string_view text, const Tensor& a,
                const Tensor& b) {
  if (fits) return;
  ops::refuse_shapes(name, fmt::format("{}: '{}' {} and '{}' {}", text, a.name(),
                                       to_string(a.shape()), b.name(), to_string(b.shape())));
}

}  // namespace

Tensor ops::gradient_of_factor(const Tensor& x, const Tensor& dy, const Placement& of_factor) {
  const auto readable = [](const Tensor& factor) {
    return is_read_in_place(factor, true) ? factor : contiguous(factor);
  };
  const GemmOperands operands{readable(x), readable(dy), true, false, true};
  const Shape shape = check_shapes(operands);
  check_operands(operands.name(), {operands.a, operands.b}, Types::factors);
  return product(operands, shape, gradient_wanted(of_factor));
}

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  ops::check_holders("matmul", {a, b});
  if (a.dim() == 0 || b.dim() == 0) {
    ops::refuse_shapes("matmul", fmt::format("both arguments to matmul need to be at least 1D, but "
                                             "they are {}D and {}D",
                                             a.dim(), b.dim()));
  }
  if (a.dim() == 1) {
    if (b.dim() == 1) check_vector("matmul", a, b);
    return squeeze(matmul(unsqueeze(a, 0), b, options), b.dim() == 1 ? 0 : -2);
  }
  if (b.dim() > 1) return multiply(a, b, options);
  if (!options.transpose_a) check_vector("matmul", a, b);
  return squeeze(matmul(a, unsqueeze(b, options.transpose_b ? 0 : 1), options), -1);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  if (!input.defined()) return matmul(a, b, options);
  ops::check_operands("addmm", {a, input}, ops::Types::factors);
  check_fits("addmm", a.dim() >= 2, "mat1 must be a matrix", a, b);
  check_fits("addmm", b.dim() >= 2, "mat2 must be a matrix", a, b);
  return multiply(a, b, options, contiguous(input));
}

Tensor mm(const Tensor& a, const Tensor& b) {
  check_fits("mm", a.dim() == 2, "self must be a matrix", a, b);
  check_fits("mm", b.dim() == 2, "mat2 must be a matrix", a, b);
  return matmul(a, b);
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  check_fits("bmm", a.dim() == 3, "batch1 must be a 3D tensor", a, b);
  check_fits("bmm", b.dim() == 3, "batch2 must be a 3D tensor", a, b);
  check_fits("bmm", a.size(0) == b.size(0),
             fmt::format("Expected size for first two dimensions of batch2 tensor to be: [{}, {}] "
                         "but got: [{}, {}].",
                         a.size(0), a.size(2), b.size(0), b.size(1)),
             a, b);
  return matmul(a, b);
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check_fits("mv", a.dim() == 2 && b.dim() == 1,
             fmt::format("vector + matrix @ vector expected, got 1, {}, {}", a.dim(), b.dim()), a,
             b);
  return matmul(a, b);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  check_fits("dot", a.dim() == 1 && b.dim() == 1,
             fmt::format("1D tensors expected, but got {}D and {}D tensors", a.dim(), b.dim()), a,
             b);
  return matmul(a, b);
}
Tensor outer(const Tensor& a, const Tensor& b) {
  constexpr std::string_view kText = "outer: Expected 1-D argument {}, but got {}-D";
  check_fits("outer", a.dim() == 1, fmt::format(kText, "self", a.dim()), a, b);
  check_fits("outer", b.dim() == 1, fmt::format(kText, "vec2", b.dim()), a, b);
  return unsqueeze(a, 1) * b;
}

}  // namespace kernbench
