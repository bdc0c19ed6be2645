// Attention over packed sequences, without scores in HBM: the kernels of varlen_attn() (ADR-0131).

#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::ops {

// A sequence's rows among those of the packed query, and of the packed key and value.
struct PackedSequence {
  std::int64_t query = 0;  // its first row
  std::int64_t query_rows = 0;
  std::int64_t key = 0;
  std::int64_t key_rows = 0;
};

// The attention of packed rows [tokens, heads, depth].
struct PackedAttention {
  std::vector<PackedSequence> sequences;
  std::int64_t heads = 1;      // of the query
  std::int64_t key_heads = 1;  // of key and value; each serves as many heads of the query
  std::int64_t depth = 1;
  double scale = 1;
  bool is_causal =
      false;  // the last row of a sequence sees all of its keys, each other row one less

  std::int64_t group() const { return heads / key_heads; }
};

struct AttentionInputs {
  Tensor query;
  Tensor key;
  Tensor value;
};

// The output, and the logarithm of the sum of the exponentials of the scores of each row and head,
// [tokens, heads] in f32, from which the backward pass computes the softmax again.
struct AttentionResult {
  Tensor output;
  Tensor log_sums;
};

// Every PE computes a part of the rows of some heads, whoever holds them, so that all parts take
// about the same number of products.
// REQUIRES: query, key and value are contiguous, and lie alike: their rows are cut, or copies
AttentionResult attend(const PackedAttention& attention, const AttentionInputs& inputs);

struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

// Computes the scores anew (FlashAttention-2, arXiv 2307.08691).
AttentionGradients attend_backward(const PackedAttention& attention, const AttentionInputs& inputs,
                                   const AttentionResult& result, const Tensor& dy);

}  // namespace kernbench::ops
