#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/attention_override.h"
#include "runtime/functional/functional.h"
#include "runtime/functional/operators.h"
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
  return ops::map_rows(
      "softmax", ops::placement_of(x), {x},
      ops::Owning([is_causal, dtype = x.dtype()](tl::Context& tl, Blocks of, const RowBlock& rows) {
        tl::Tensor s = tl.cast(of[0], DType::f32);
        if (is_causal) s = masked(tl, s, rows);
        return tl.cast(tl.softmax(s), dtype);
      }));
}

// Returns y (dy - sum(dy y)): where y is 0, behind the mask, the gradient is 0 too.
Tensor softmax_gradient(const Tensor& dy, const Tensor& y) {
  return ops::map_rows(
      "softmax_backward",
      ops::elementwise_placement("softmax_backward", dy, y, ops::Linearity::each), {dy, y},
      ops::Owning([dtype = dy.dtype()](tl::Context& tl, Blocks of, const RowBlock&) {
        const tl::Tensor g = tl.cast(of[0], DType::f32);
        const tl::Tensor p = tl.cast(of[1], DType::f32);
        const tl::Tensor along = tl.sum(g * p, 1, {.keep_dims = true});
        return tl.cast(p * (g - along), dtype);
      }));
}

Tensor record_softmax(const Tensor& x, bool is_causal) {
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
  ops::check_holders("softmax", {x});
  ops::check_is_floating("softmax_lastdim_kernel_impl", x);
  if (ops::is_point("softmax", x, dim)) return reshape(softmax(reshape(x, {1}), 0), {});
  const auto dimension = static_cast<int>(ops::wrap_dimension("softmax", x, dim));
  const auto last = static_cast<int>(x.shape().rank()) - 1;
  if (dimension == last) return record_softmax(x, false);
  const Tensor rows = contiguous(transpose(x, dimension, last));
  return contiguous(transpose(record_softmax(rows, false), dimension, last));
}

namespace {

constexpr std::string_view kAttention = "scaled_dot_product_attention";

// The heads of a query that share one of the key.
std::int64_t group_size(const Tensor& query, const Tensor& key, const AttentionOptions& options) {
  if (!options.enable_gqa || query.dim() < 3) return 1;
  const std::int64_t heads = query.size(-3);
  if (const std::int64_t shared = key.size(-3); shared > 0 && heads % shared == 0) {
    return heads / shared;
  }
  ops::refuse_shapes(kAttention,
                     fmt::format("Number of heads in key and value must divide the number of heads "
                                 "in query: {} and {}",
                                 to_string(key.shape()), to_string(query.shape())));
}

// A view of x with this many heads and rows, in which the rows of consecutive heads follow each
// other.
Tensor grouped(const Tensor& x, std::int64_t heads, std::int64_t rows) {
  if (x.dim() < 3 || (x.size(-3) == heads && x.size(-2) == rows)) return x;
  std::vector<std::int64_t> sizes(x.shape().begin(), x.shape().end());
  sizes[sizes.size() - 3] = heads;
  sizes[sizes.size() - 2] = rows;
  return reshape(x, Shape(sizes));
}

void check_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                     const AttentionOptions& options) {
  ops::check_operands(kAttention, {query, key, value});
  if (query.shape().rank() < 2) {
    ops::refuse_shapes(kAttention,
                       fmt::format("query is {}; [..., s, d] is wanted", to_string(query.shape())));
  }
  if (options.attn_mask.defined() && options.is_causal) {
    ops::refuse_shapes(kAttention, "Explicit attn_mask should not be set when is_causal=True");
  }
}

// Numbers are added; a mask of bool is true where a key is seen.
Tensor masked_by(const Tensor& mask, const Tensor& scores) {
  if (mask.dtype() == DType::boolean) {
    return where(mask, scores, -std::numeric_limits<double>::infinity());
  }
  if (is_integral(mask.dtype())) {
    ops::refuse_type(kAttention,
                     fmt::format("Expected attn_mask dtype to be bool or to match query "
                                 "dtype, but got attn_mask.dtype: {}",
                                 torch_name_of(mask.dtype())));
  }
  return scores + mask;
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  check_attention(query, key, value, options);
  if (const ops::AttentionOverride* const taken = ops::find_attention_override(query)) {
    return taken->scaled_dot_product(query, key, value, options);
  }
  const std::int64_t rows = query.size(-2);
  const std::int64_t heads = query.dim() < 3 ? 1 : query.size(-3);
  const std::int64_t group = group_size(query, key, options);
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  Tensor scores = matmul(grouped(query, heads / group, group * rows), key,
                         {.transpose_b = true, .alpha = scale});
  scores = grouped(scores, heads, rows);
  if (options.attn_mask.defined()) scores = masked_by(options.attn_mask, scores);
  const Tensor seen = dropout(record_softmax(scores, options.is_causal), options.dropout_p);
  return grouped(matmul(grouped(seen, heads / group, group * rows), value), heads, rows);
}

}  // namespace kernbench::nn::functional
