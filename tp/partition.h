// How Megatron-LM cuts things into equal parts (megatron.core.utils, tensor_parallel.utils).

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tp/parallel_state.h"

namespace kernbench::tp {

// numerator / denominator, which must be exact (Megatron's divide()).
// Throws CollectiveError KB-T001 in Megatron's words, "12 is not divisible by 5", followed by
// `what` if given: "12 is not divisible by 5: out_features of 'fc1', the ranks of its group".
std::int64_t divide(std::int64_t numerator, std::int64_t denominator, std::string_view what = {});

// Rows [begin, end) of a vocabulary.
struct VocabRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  friend bool operator==(const VocabRange&, const VocabRange&) = default;
};

// The words of `rank` (VocabUtility.vocab_range_from_per_partition_vocab_size).
VocabRange vocab_range_from_per_partition_vocab_size(std::int64_t per_partition_vocab_size,
                                                     int rank);

// The words of `rank`, from the size of the whole vocabulary
// (VocabUtility.vocab_range_from_global_vocab_size).  Throws like divide().
VocabRange vocab_range_from_global_vocab_size(std::int64_t global_vocab_size, int rank,
                                              int world_size);

// The size of the vocabulary with words added so that ranks can share it: rounded up to a multiple
// of make_vocab_size_divisible_by * world_size (Megatron's _vocab_size_with_padding).
std::int64_t padded_vocab_size(std::int64_t vocab_size, int world_size,
                               std::int64_t make_vocab_size_divisible_by = 128);

// Splits x into equal parts along its last dimension (Megatron's split_tensor_along_last_dim), with
// autograd.  Throws CollectiveError KB-T001 if the dimension is not divisible.
std::vector<Tensor> split_tensor_along_last_dim(const Tensor& x, int num_partitions);

// This rank's part of the elements of x, row by row, and the inverse: all parts as a flat tensor
// (Megatron's split_tensor_into_1d_equal_chunks and gather_split_1d_tensor).
Tensor split_tensor_into_1d_equal_chunks(RuntimeContext& torch, const Tensor& x,
                                         const CallGroup& group);
Tensor gather_split_1d_tensor(RuntimeContext& torch, const Tensor& x, const CallGroup& group);

}  // namespace kernbench::tp
