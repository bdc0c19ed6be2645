// Attention over packed sequences, without scores in HBM: the kernels of varlen_attn() (ADR-0131).

#pragma once

#include <cstdint>
#include <string_view>
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

// Packed tensors have heads as columns, and tokens as rows.  With a layout each sequence of a batch
// has as many rows in each of several tensors, its parts, which follow each other; tokens are
// counted in the same way, from sequence to sequence.  Heads may be rows as well, so that a
// contiguous [batches, heads, rows, depth] is packed as [batches heads rows, 1, depth].
struct PackedLayout {
  std::int64_t batches = 0;
  std::int64_t rows = 0;  // of a sequence in a part; 0: there is one part, of any sequences
  bool are_heads_rows = false;
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
  PackedLayout layout = {};
  // The results hold those of other keys, which these are added to: the output and the sums, in
  // f32, in forward, and the query's gradient in backward.
  bool continues = false;

  std::int64_t group() const { return heads / key_heads; }
};

struct AttentionInputs {
  Tensor query;
  Tensor key;
  Tensor value;
};

// Throws DeviceError KB-F003 unless all three are whole, and copies or cut by rows, alike.
void check_lie_alike(std::string_view name, const AttentionInputs& inputs);

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
// Writes the rows of the sequences alone, rounded to the type of the output.  A part is an element
// of each list.
void attend_into(const PackedAttention& attention, const std::vector<AttentionInputs>& inputs,
                 const std::vector<AttentionResult>& results);

struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
};

// Computes the scores anew (FlashAttention-2, arXiv 2307.08691).
AttentionGradients attend_backward(const PackedAttention& attention, const AttentionInputs& inputs,
                                   const AttentionResult& result, const Tensor& dy);

struct BackwardParts;

// Writes the rows and the keys of the sequences alone.
void attend_backward_into(const PackedAttention& attention, const BackwardParts& parts);

}  // namespace kernbench::ops
