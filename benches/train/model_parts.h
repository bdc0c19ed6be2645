// The models of the benches have these parts in common, whether ranks share them or not.

#pragma once

#include <cstdint>
#include <vector>

#include "benches/train/language_model.h"

namespace kernbench::benches::train {

inline constexpr double kNormEpsilon = 1e-5;  // of RMSNorm

// Turns [tokens, heads depth] into [tokens, heads, depth], of as many heads as there are.
Tensor split_heads(const Tensor& x, const LanguageModelSize& size);

// Causal attention of [tokens, heads, depth] within each sample: [tokens, heads depth].  The
// samples follow each other, so that PEs may share the tokens within a sample too.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const LanguageModelSize& size);

// Returns the position of each token in its sample.
std::vector<std::int64_t> positions_in_samples(const LanguageModelSize& size);

// Returns how tokens lie beside weights that PEs share: row by row on the same PEs.
DPPolicy rows_of(const DPPolicy& weights);

}  // namespace kernbench::benches::train
