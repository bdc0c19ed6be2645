// megatron.core.tensor_parallel.VocabParallelEmbedding.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/nn/module.h"
#include "tp/mappings.h"
#include "tp/parameter.h"
#include "tp/partition.h"
#include "tp/weights.h"

namespace kernbench::tp {

struct VocabParallelEmbeddingOptions {
  std::int64_t num_embeddings = 0;  // of all ranks together; padded_vocab_size() divides
  std::int64_t embedding_dim = 0;
  // The output is transposed to [s, b, h], and each rank gets a part of s.
  bool reduce_scatter_embeddings = false;
  InitMethod init_method = init_method_normal(0.02);
  bool perform_initialization = true;
  // Without one it is f16, and ids may be on other PEs, as ColumnParallelLinear's input may.
  std::optional<DType> dtype = std::nullopt;
  // The PEs of the device that share the rank's words: the first num_pes PEs of the first num_cubes
  // cubes.  The ids are replicated on them.
  int num_cubes = 1;
  int num_pes = 1;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
  std::string name = "vocab_parallel_embedding";
};

// Looks up rows of a table of words, which is cut over the W ranks of a group.  A rank looks up
// words of other ranks as zeros, so that the sum over ranks is the row.
//
//   ids     [b, s]            numbers of words in i64, i32 or f32, the same on all ranks
//   weight  [words / W, h]    this rank's words, vocab_range()
//   output  [b, s, h]         the same on all ranks
//           [s / W, b, h]     with reduce_scatter_embeddings: transposed, of one rank too
//
// Communication: forward one all_reduce of the output, backward none; with
// reduce_scatter_embeddings forward one reduce_scatter, backward one all_gather.
class VocabParallelEmbedding : public nn::Module, public ParallelLayer {
 public:
  // Called by a rank.  Throws CollectiveError KB-T001 if the group does not divide num_embeddings,
  // KB-T002 without groups.
  VocabParallelEmbedding(RuntimeContext& torch, VocabParallelEmbeddingOptions options);

  Tensor forward(const Tensor& ids, Location location = Location::current()) const;
  // forward(), with the hooks of the module around it, such as those of fully_shard.
  Tensor operator()(const Tensor& ids, Location location = Location::current()) const {
    return call(ids, [&](const Tensor& input) { return forward(input, location); });
  }

  const VocabParallelEmbeddingOptions& options() const { return options_; }
  const VocabRange& vocab_range() const { return words_; }
  // With Megatron's attributes; of a Module they are plain tensors.
  std::vector<Parameter> parameters() const override { return {weight}; }

  Parameter weight;

 private:
  RuntimeContext& torch_;
  const VocabParallelEmbeddingOptions options_;
  const distributed::ProcessGroup group_;
  const VocabRange words_;
};

}  // namespace kernbench::tp
