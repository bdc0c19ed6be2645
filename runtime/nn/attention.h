// torch.nn.MultiheadAttention, and rotary positions.

#pragma once

#include <cstdint>
#include <utility>

#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/nn/option.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

class MultiheadAttentionOptions {
 public:
  MultiheadAttentionOptions(std::int64_t embed_dim, std::int64_t num_heads)
      : embed_dim_(embed_dim), num_heads_(num_heads) {}
  std::int64_t embed_dim() const { return embed_dim_; }
  std::int64_t num_heads() const { return num_heads_; }
  KERNBENCH_OPTION(double, dropout, 0);
  KERNBENCH_OPTION(bool, bias, true);
  KERNBENCH_OPTION(bool, batch_first, false);  // [b, s, e] instead of [s, b, e]

 private:
  std::int64_t embed_dim_;
  std::int64_t num_heads_;
};

struct MultiheadAttentionMasks {
  // Added to the scores: -inf where a key is padding [b, t], or not seen [s, t].  Or of bool: true
  // there, the other way round than in scaled_dot_product_attention(), as in torch.
  Tensor key_padding_mask = {};
  Tensor attn_mask = {};
  bool is_causal = false;  // without attn_mask
};

// Projects query [s, b, e], key and value [t, b, e] by in_proj_weight [3 e, e], attends head by
// head, and projects the heads' outputs together: [s, b, e].  Weights of the projections begin as
// xavier_uniform_, those of out_proj as Linear's, biases 0.  Unlike torch's it returns the output
// alone (need_weights=False).
struct MultiheadAttentionImpl : Module {
  // Throws CollectiveError KB-A010, in torch's words, for heads that do not divide embed_dim.
  MultiheadAttentionImpl(const RuntimeContext& torch, const MultiheadAttentionOptions& options,
                         const TensorOptions& tensors = {});
  MultiheadAttentionImpl(const RuntimeContext& torch, std::int64_t embed_dim,
                         std::int64_t num_heads, const TensorOptions& tensors = {})
      : MultiheadAttentionImpl(torch, MultiheadAttentionOptions(embed_dim, num_heads), tensors) {}
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 const MultiheadAttentionMasks& masks = {}) const;

  MultiheadAttentionOptions options;
  Tensor in_proj_weight;
  Tensor in_proj_bias;
  Linear out_proj = nullptr;

 private:
  Tensor projected(const Tensor& x, std::int64_t which) const;
};
KERNBENCH_MODULE(MultiheadAttention);

// Rotary positions (Su et al., arXiv:2104.09864), as Llama and Megatron turn halves: element i of
// the first half and of the second one turn by s base^(-2 i / dim) at position s.
struct RotaryEmbeddingImpl : Module {
  RotaryEmbeddingImpl(const RuntimeContext& torch, std::int64_t dim, std::int64_t max_seq_len,
                      const TensorOptions& tensors = {}, double base = 10000);
  // x [..., s, dim], for positions from 0 on; s is at most max_seq_len (KB-F001).
  Tensor forward(const Tensor& x) const;

  Tensor cosine;  // [max_seq_len, dim]; no buffers, as they follow from the arguments
  Tensor sine;
};
KERNBENCH_MODULE(RotaryEmbedding);

}  // namespace kernbench::nn
