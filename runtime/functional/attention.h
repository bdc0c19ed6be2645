// Softmax and attention.

#pragma once

#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// exp(x - max) / sum(exp(x - max)) along a dimension, which is whole on each PE (KB-F003), computed
// in f32 with one rounding to the type.  It works on rows: another dimension than the last one is
// transposed there and back.  Rows must fit scratch
// several times (KB-M010): with 2 MiB they have up to 174,000 elements of f16, or 95,000 with
// gradients; of f32 262,000, or 131,000 with gradients.
Tensor softmax(const Tensor& x, int dim = -1);

struct AttentionOptions {
  bool is_causal = false;            // a row sees columns up to its own number
  std::optional<double> scale = {};  // unless given, 1 / sqrt(d)
};

// softmax(scale query key^T) value, for query [..., s, d], key [..., t, d] and value [..., t, e]
// with equal leading sizes: [..., s, e].  Two products and a softmax, each a kernel with one
// rounding: scores are scaled before they are rounded, so that in f16 only the scaled ones need to
// be finite.  PEs may share the heads: with three dimensions, row_wise splits heads (split_heads()
// makes them from a column_wise matrix).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace kernbench::nn::functional
