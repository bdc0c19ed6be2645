// Softmax and attention.

#pragma once

#include <optional>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// exp(x - max) / sum of these, of each row: `dim` must be the last dimension (KB-F001), whole on
// each PE (KB-F003).  In f32, with one rounding to the type.  Rows must fit scratch several times
// (KB-M010): with 2 MiB they have up to 174,000 elements of f16, 95,000 with gradients; of f32
// 262,000 and 131,000.
Tensor softmax(const Tensor& x, int dim = -1);

struct AttentionOptions {
  bool is_causal = false;            // a row sees columns up to its own number
  std::optional<double> scale = {};  // unless given, 1 / sqrt(d)
};

// softmax(scale query key^T) value, of [..., s, d], [..., t, d] and [..., t, e]: [..., s, e], with
// the same sizes in front.  Two products and a softmax, each a kernel, and each with one rounding:
// scores are scaled before they are rounded, so that in f16 only scaled ones need to be finite.
// Heads may be shared by PEs: with three dimensions, row_wise cuts heads (split_heads() makes them
// of a column_wise matrix).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace kernbench::nn::functional
