// The models of the benches have these parts in common, whether ranks share them or not.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "benches/train/language_model.h"
#include "benches/train/recomputation.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::benches::train {

inline constexpr double kNormEpsilon = 1e-5;  // of RMSNorm

// Turns [tokens, heads depth] into [tokens, heads, depth], of as many heads as there are.
Tensor split_heads(const Tensor& x, const LanguageModelSize& size);

// Causal attention of [tokens, heads, depth] within each sample: [tokens, heads depth].  The
// samples follow each other, so that PEs may share the tokens within a sample too.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const LanguageModelSize& size);

// Returns the position of each token in its sample.
std::vector<std::int64_t> positions_in_samples(const LanguageModelSize& size);

// A block of a model, [tokens, hidden] to the same, which backward computes again if it is one of
// `recomputed`.  Selective recomputation keeps the results of products and of attention.  The
// checkpoint is inside of the module's call, so that what others add to a call, as fully_shard
// does, happens once.
struct RecomputableBlock : nn::Module {
  std::shared_ptr<const RecomputedLayers> recomputed = nullptr;  // null: none
  std::size_t layer = 0;

  Tensor forward(const Tensor& x) const;
  virtual Tensor compute(const Tensor& x) const = 0;
};

// The blocks of a model whose forward passes `recomputed` decides.
template <class Block>
void add_block(nn::ModuleList<Block>& blocks, const Block& block,
               const std::shared_ptr<const RecomputedLayers>& recomputed) {
  block->recomputed = recomputed;
  block->layer = blocks->size();
  blocks->push_back(block);
}

template <class Block>
Tensor call_blocks(const nn::ModuleList<Block>& blocks, Tensor x) {
  for (const Block& block : *blocks) x = block(x);
  return x;
}

// Returns how tokens lie beside weights that PEs share: row by row on the same PEs.
DPPolicy rows_of(const DPPolicy& weights);

}  // namespace kernbench::benches::train
