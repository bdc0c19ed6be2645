#include "runtime/functional/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/matmul.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/elements.h"

namespace kernbench::nn::functional {

namespace {

using autograd::needs_grad;
using autograd::SavedTensor;
using ops::RowBlock;
using Blocks = std::span<const tl::Tensor>;

// Sets elements to -inf where the column's number is above the row's.
tl::Tensor masked(tl::Context& tl, const tl::Tensor& x, const RowBlock& rows) {
  const tl::Tensor row =
      tl.reshape(tl.arange(rows.first, rows.first + rows.count), {rows.count, 1});
  const tl::Tensor column = tl.arange(0, x.shape()[1]);
  return tl.where(column <= row, x, -std::numeric_limits<double>::infinity());
}

Tensor probabilities(const Tensor& x, bool is_causal) {
  return ops::map_rows("softmax", ops::placement_of(x), {x},
                       [is_causal, x](tl::Context& tl, Blocks of, const RowBlock& rows) {
                         tl::Tensor s = tl.cast(of[0], DType::f32);
                         if (is_causal) s = masked(tl, s, rows);
                         return tl.cast(tl.softmax(s), x.dtype());
                       });
}

// Returns y (dy - sum(dy y)): where y is 0, behind the mask, the gradient is 0 too.
Tensor softmax_gradient(const Tensor& dy, const Tensor& y) {
  return ops::map_rows("softmax_backward",
                       ops::elementwise_placement("softmax_backward", dy, y, ops::Linearity::each),
                       {dy, y}, [dy](tl::Context& tl, Blocks of, const RowBlock&) {
                         const tl::Tensor g = tl.cast(of[0], DType::f32);
                         const tl::Tensor p = tl.cast(of[1], DType::f32);
                         const tl::Tensor along = tl.sum(g * p, 1, {.keep_dims = true});
                         return tl.cast(p * (g - along), dy.dtype());
                       });
}

Tensor softmax_of(const Tensor& x, bool is_causal) {
  ops::check_operands("softmax", {x});
  ops::check_has_whole_rows("softmax", x);
  Tensor y = probabilities(x, is_causal);
  if (!needs_grad(x)) return y;
  return autograd::record("softmax", y, {x}, [y = SavedTensor(y)](const Tensor& dy) {
    return std::vector{softmax_gradient(dy, y.get())};
  });
}

}  // namespace

Tensor softmax(const Tensor& of, int dim) {
  const Tensor x = contiguous(of);
  ops::check_operands("softmax", {x});
  const auto dimension = static_cast<int>(ops::dimension_of("softmax", x, dim));
  const auto last = static_cast<int>(x.shape().rank()) - 1;
  if (dimension == last) return softmax_of(x, false);
  const Tensor rows = contiguous(transpose(x, dimension, last));
  return contiguous(transpose(softmax_of(rows, false), dimension, last));
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  ops::check_operands("scaled_dot_product_attention", {query, key, value});
  if (query.shape().rank() < 2) {
    ops::refuse_shapes("scaled_dot_product_attention",
                       fmt::format("query is {}; [..., s, d] is wanted", to_string(query.shape())));
  }
  const auto d = static_cast<double>(query.shape()[query.shape().rank() - 1]);
  const double scale = options.scale.value_or(1 / std::sqrt(d));
  const Tensor scores = matmul(query, key, {.transpose_b = true, .alpha = scale});
  return matmul(softmax_of(scores, options.is_causal), value);
}

}  // namespace kernbench::nn::functional
