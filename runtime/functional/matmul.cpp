#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/kept_results.h"
#include "runtime/functional/matmul_across_pes.h"
#include "runtime/functional/matmul_kernel.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/product_placement.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"
#include "runtime/ops/reduce.h"
#include "runtime/tensor/describe.h"
#include "runtime/tensor/strided_view.h"
#include "sim_engine/base/error.h"

namespace kernbench {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::GemmOperands;

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
    const auto turned = ops::by_level(*wanted, [](ops::Level level) {
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
  const ops::Placement placement =
      wanted ? *wanted : ops::placement_of_product(operands, shape.rank());
  Tensor c = ops::make_like(operands.a, operands.name(), shape,
                            operands.out_dtype.value_or(operands.a.dtype()), placement);
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

Tensor read_in_place(const Tensor& factor, bool is_folded) {
  return ops::is_read_in_place(factor, is_folded) ? factor : contiguous(factor);
}

Tensor multiply(const Tensor& of_a, const Tensor& of_b, const MatmulOptions& options,
                const Tensor& bias = {}) {
  const bool is_folded = of_b.dim() <= 2;
  const Tensor a = read_in_place(of_a, is_folded);
  const Tensor b = read_in_place(of_b, is_folded);
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

// Throws KB-F002, in torch's words where it has any.
void check_types_of_scaled(const Tensor& a, const Tensor& b, const ScaledMmOptions& options) {
  const auto refuse = [](const std::string& text, const Tensor& x) {
    throw DeviceError("KB-F002", "scaled_mm: {}: {}", text, runtime::describe(x));
  };
  const auto check_is_f8 = [&](std::string_view name, const Tensor& x) {
    if (is_float8(x.dtype())) return;
    refuse(fmt::format("Expected {} to be Float8 matrix got {}", name, torch_name_of(x.dtype())),
           x);
  };
  check_is_f8("mat1", a);
  check_is_f8("mat2", b);
  if (a.dtype() == DType::f8e5m2 && b.dtype() == DType::f8e5m2) {
    refuse("Multiplication of two Float8_e5m2 matrices is not supported", b);
  }
  if (std::ranges::find(kDTypes, options.out_dtype) == kDTypes.end()) {
    refuse(fmt::format("out_dtype {}; f16, bf16 or f32 is wanted", name_of(options.out_dtype)), a);
  }
  if (options.bias.defined() && options.bias.dtype() != options.out_dtype) {
    refuse(fmt::format("the bias is not of out_dtype, {}", name_of(options.out_dtype)),
           options.bias);
  }
  for (const Tensor* const operand : {&a, &b, &options.bias}) {
    if (!needs_grad(*operand)) continue;
    refuse("derivative for scaled_mm is not implemented; detach() the operand", *operand);
  }
}

}  // namespace

Tensor ops::gradient_of_factor(const Tensor& x, const Tensor& dy, const Placement& of_factor) {
  const GemmOperands operands{read_in_place(x, true), read_in_place(dy, true), true, false, true};
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

Tensor scaled_mm(const Tensor& a, const Tensor& b, const ScaledMmOptions& options) {
  ops::check_holders("scaled_mm", {a, b});
  check_fits("scaled_mm", a.dim() == 2, "mat1 must be a matrix", a, b);
  check_fits("scaled_mm", b.dim() == 2, "mat2 must be a matrix", a, b);
  check_types_of_scaled(a, b, options);
  const GemmOperands operands{read_in_place(a, true),
                              read_in_place(b, true),
                              false,
                              false,
                              true,
                              options.scale_a * options.scale_b,
                              options.bias.defined() ? contiguous(options.bias) : Tensor(),
                              options.out_dtype};
  const Shape shape = check_shapes(operands);
  check_bias(operands, shape[1]);
  return product(operands, shape);
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
