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
  // The mask broadcasts to the scaled scores [..., s, t].  A bool mask is true where a key is seen;
  // numbers are added to the scores, 0 where it is seen and -inf where it is not.
  Tensor attn_mask = {};
  double dropout_p = 0;              // of the probabilities, in training or not
  bool is_causal = false;            // a row sees columns up to its own number
  std::optional<double> scale = {};  // unless given, 1 / sqrt(d)
  bool enable_gqa = false;           // several heads of the query share one of key and value
};

// softmax(scale query key^T + mask) value, for query [..., s, d], key [..., t, d] and value [...,
// t, e] with equal leading sizes: [..., s, e].  Two products and a softmax, each a kernel with one
// rounding: scores are scaled before they are rounded, so that in f16 only the scaled ones need to
// be finite; a mask and dropout are a kernel each.  PEs may share the heads: with three dimensions,
// row_wise splits heads (split_heads() makes them from a column_wise matrix).
//
// enable_gqa: query [..., h, s, d], key and value [..., k, t, ...], where k divides h; head i of
// the query has head i / (h / k) of the others. Throws DeviceError KB-F001, in torch's words, for a
// mask with is_causal, or other numbers of heads.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace kernbench::nn::functional

namespace kernbench {
using nn::functional::softmax;  // torch::softmax
}
