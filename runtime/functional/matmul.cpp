#include <fmt/format.h>

#include <algorithm>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/matmul_kernel.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/reduce.h"

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

// REQUIRES: the shapes fit
Tensor product(const GemmOperands& operands, const Shape& shape) {
  const auto placement = ops::by_level(ops::placement_of(operands.a), ops::placement_of(operands.b),
                                       [&](const Level& a, const Level& b) {
                                         return level_of_product(operands, shape.rank(), a, b);
                                       });
  if (!placement) {
    ops::refuse_placements(
        operands.name(), operands.a, operands.b,
        "on each level one operand may be cut along what the other has not, both along what is "
        "summed over or along the batch, or one be partial beside a replicated one");
  }
  Tensor c = ops::make_like(operands.a, operands.name(), shape, operands.a.dtype(), *placement);
  if (operands.bias.defined()) {
    ops::elementwise_placement(operands.name(), c, operands.bias, ops::Linearity::together);
  }
  ops::gemm_into(c, operands);
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

// Returns the shape of the product.  Throws KB-F001 if there is none.
Shape check_shapes(const GemmOperands& operands) {
  const Shape& a = operands.a.shape();
  const Shape& b = operands.b.shape();
  const auto refuse = [&](std::string_view wanted) {
    ops::refuse_shapes(
        operands.name(),
        fmt::format("mat1 and mat2 shapes cannot be multiplied: '{}' {}{} and '{}' {}{}; "
                    "{} is wanted",
                    operands.a.name(), to_string(a), operands.transpose_a ? " transposed" : "",
                    operands.b.name(), to_string(b), operands.transpose_b ? " transposed" : "",
                    wanted));
  };
  const bool is_batched = b.rank() > 2;
  if (a.rank() < 2 || b.rank() < 2) refuse("at least one dimension");
  if (is_batched && !std::ranges::equal(batch_of(operands.a), batch_of(operands.b))) {
    refuse("a matrix b, or the same sizes in front of both matrices");
  }
  if (!is_batched && operands.transpose_a && a.rank() > 2) {
    refuse("an a of two dimensions, where it is transposed");
  }
  const auto size = [](const Shape& shape, bool is_last) {
    return shape[shape.rank() - (is_last ? 1 : 2)];
  };
  if (size(a, !operands.transpose_a) != size(b, operands.transpose_b)) {
    refuse("[m, k] and [k, n]");
  }
  return with_matrix(batch_of(operands.a), size(a, operands.transpose_a),
                     size(b, !operands.transpose_b));
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

// Here op(x) is x or its transpose: the gradient of op(a) is dc op(b)^T, that of op(b) is op(a)^T
// dc.
Tensor gradient_of_a(const GemmOperands& of, const Tensor& dc, const Shape& shape) {
  if (of.transpose_a)
    return product({of.b, dc, of.transpose_b, true, of.is_folded, of.alpha}, shape);
  return product({dc, of.b, false, !of.transpose_b, of.is_folded, of.alpha}, shape);
}
Tensor gradient_of_b(const GemmOperands& of, const Tensor& dc, const Shape& shape) {
  if (of.transpose_b)
    return product({dc, of.a, true, of.transpose_a, of.is_folded, of.alpha}, shape);
  return product({of.a, dc, !of.transpose_a, false, of.is_folded, of.alpha}, shape);
}

// REQUIRES: checked operands, of `input` + a b with these options
Tensor multiply(const Tensor& of_a, const Tensor& of_b, const MatmulOptions& options,
                const Tensor& bias = {}) {
  const bool is_folded = of_b.dim() <= 2;
  const Tensor a = ops::is_read_in_place(of_a, is_folded) ? of_a : contiguous(of_a);
  const Tensor b = ops::is_read_in_place(of_b, is_folded) ? of_b : contiguous(of_b);
  const GemmOperands operands{
      a, b, options.transpose_a, options.transpose_b, is_folded, options.alpha, bias};
  const Shape shape = check_shapes(operands);
  check_bias(operands, shape[shape.rank() - 1]);
  Tensor c = product(operands, shape);
  if (!needs_grad(a, b, operands.bias)) return c;
  const Tensor none;
  GemmOperands form = operands;  // without tensors
  form.a = form.b = form.bias = none;
  const auto backward = [form, a = SavedTensor(needs_grad(b) ? a : none),
                         b = SavedTensor(needs_grad(a) ? b : none), shape_of_a = a.shape(),
                         shape_of_b = b.shape(), of_a = needs_grad(a), of_b = needs_grad(b),
                         of_bias = needs_grad(operands.bias)](const Tensor& dc) {
    GemmOperands of = form;
    of.a = a.get();
    of.b = b.get();
    const Tensor da = of_a ? gradient_of_a(of, dc, shape_of_a) : Tensor();
    const Tensor db = of_b ? gradient_of_b(of, dc, shape_of_b) : Tensor();
    return std::vector{of_bias ? ops::sum_of_rows(dc) : Tensor(), da, db};
  };
  // The bias comes first, as in torch: so do its hooks.
  return autograd::record(operands.name(), std::move(c), {operands.bias, a, b}, backward);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  ops::check_operands("matmul", {a, b});
  if (a.dim() == 1) {
    return squeeze(matmul(unsqueeze(a, 0), b, options), b.dim() == 1 ? 0 : -2);
  }
  if (b.dim() == 1) return squeeze(matmul(a, unsqueeze(b, 1), options), -1);
  return multiply(a, b, options);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  if (!input.defined()) return matmul(a, b, options);
  ops::check_operands("addmm", {a, b, input});
  return multiply(a, b, options, contiguous(input));
}

namespace {

void check_ranks(std::string_view name, const Tensor& a, std::int64_t rank_of_a, const Tensor& b,
                 std::int64_t rank_of_b) {
  const bool are_stacks = rank_of_a == 3;
  if (a.dim() == rank_of_a && b.dim() == rank_of_b &&
      !(are_stacks && a.shape()[0] != b.shape()[0])) {
    return;
  }
  ops::refuse_shapes(name, fmt::format("{} and {}: {} takes tensors of {} and {} dimensions{}",
                                       to_string(a.shape()), to_string(b.shape()), name, rank_of_a,
                                       rank_of_b, are_stacks ? ", of as many matrices" : ""));
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_ranks("mm", a, 2, b, 2);
  return matmul(a, b);
}
Tensor bmm(const Tensor& a, const Tensor& b) {
  check_ranks("bmm", a, 3, b, 3);
  return matmul(a, b);
}
Tensor mv(const Tensor& a, const Tensor& b) {
  check_ranks("mv", a, 2, b, 1);
  return matmul(a, b);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  check_ranks("dot", a, 1, b, 1);
  return matmul(a, b);
}
Tensor outer(const Tensor& a, const Tensor& b) {
  check_ranks("outer", a, 1, b, 1);
  return unsqueeze(a, 1) * b;
}

}  // namespace kernbench
