// The language models of language_model.h with Megatron's tensor parallel layers: ranks share the
// heads of attention, the features of the MLP and the vocabulary (ADR-0133).
//
// A page to copy: it needs only tp's layers and the operators.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "benches/train/language_model.h"
#include "benches/train/training.h"

namespace kernbench::benches::train {

struct ParallelOptions {
  ModelKind model = ModelKind::gpt;
  // Ranks share the tokens between the parallel layers: each has a part of their rows.
  bool sequence_parallel = false;
  // A stage of a pipeline is a part: without them it takes, or gives, what lies between two blocks,
  // [tokens, hidden].
  bool has_embedding = true;
  bool has_head = true;
};

// A rank's part of the model; the ranks of its tensor parallel group all take the same tokens, and
// get the logits of their part of the vocabulary, for parallel_loss().  Query, key and value are
// one product, whose columns on a rank are [query | key | value] of its heads, and so are gate and
// up of Llama.  The vocabulary is padded as Megatron pads it (parallel_vocab()).  Each rank has
// GPT's table of positions.
//
// Each block communicates tensors of [tokens, hidden]: forward two all_reduces, backward two;
// sequence_parallel: forward two all_gathers and two reduce_scatters, backward two more
// all_gathers.  Throws UsageError KB-U012 for heads, key heads, features or tokens that the ranks
// do not divide.
LanguageModel make_parallel(RuntimeContext& torch, const LanguageModelSize& size,
                            const TensorOptions& tensors, const ParallelOptions& options);

// The mean over all tokens: the same on all ranks.
Tensor parallel_loss(RuntimeContext& torch, const Tensor& logits, const Tensor& targets);

// The size of the vocabulary that `ranks` ranks share.
std::int64_t parallel_vocab(const LanguageModelSize& size, int ranks);

// Why the ranks cannot share the model: "tp 4 does not divide heads, which is 2"; nullopt: they
// can.
std::optional<std::string> describe_unshared(const LanguageModelSize& size, int ranks,
                                             const ParallelOptions& options);

// Throws UsageError KB-U012 as make_parallel() does.
void check_shares(std::string_view bench, const LanguageModelSize& size, int ranks,
                  const ParallelOptions& options);

}  // namespace kernbench::benches::train
