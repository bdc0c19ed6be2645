// megatron.core.tensor_parallel.vocab_parallel_cross_entropy.

#pragma once

#include <cstdint>
#include <optional>

#include "tp/mappings.h"

namespace kernbench::tp {

struct VocabParallelCrossEntropyOptions {
  double label_smoothing = 0;  // in [0, 1): spread evenly over the other words
  // The size over all ranks together.  If it is given, logits of another size than this rank's part
  // are refused: for gathered logits the loss would silently be log(W) too large.
  std::optional<std::int64_t> vocab_size = std::nullopt;
  OptionalGroup tp_group = std::nullopt;  // none: the caller's tensor model parallel group
};

// The loss of each token, of logits whose vocabulary is cut over the W ranks of a group:
//   loss = log(sum(exp(x))) - (1 - s) x[target] - s mean(x)
// with x over the whole vocabulary V and s = label_smoothing V / (V - 1), as Megatron defines it.
// (Megatron itself takes V and the mean of each rank's part, so that its ranks differ: ADR-0134.)
//
//   logits  [..., V / W]  this rank's words [r V / W, (r + 1) V / W); not modified
//   target  [...]         numbers of words in f32, the same on all ranks
//   loss    [...]         f32, the same on all ranks
//
// A target that is no word contributes 0 instead of x[target] - max(x), as in Megatron: without
// smoothing its loss is log(sum(exp(x - max(x)))).  Callers mask such targets.
//
// Communication: forward three all_reduces of [...]: of the maxima, of x[target] plus the term of
// smoothing, and of the sums of exponentials.  Backward none.
//
// Inside the device, all of a token's logits are on one PE and must fit its scratch; tokens may be
// cut along the first dimension.  Throws CollectiveError KB-T006 for shapes, types or a vocabulary
// that do not fit, DeviceError KB-F003 for other placements.
Tensor vocab_parallel_cross_entropy(RuntimeContext& torch, const Tensor& logits,
                                    const Tensor& target,
                                    const VocabParallelCrossEntropyOptions& options = {},
                                    Location location = Location::current());

}  // namespace kernbench::tp
