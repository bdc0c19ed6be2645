#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// batchmean, the sum divided by the first dimension, is kl_div's.
enum class Reduction : std::uint8_t { mean, sum, none, batchmean };

struct CrossEntropyOptions {
  double label_smoothing = 0;  // from 0 to 1: the share that is spread evenly over all classes
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;  // rows with this target do not count
};

// The loss of logits [n, c] with target classes [n] in i64 or f32.  For each row it is
//   log(sum(exp(x))) - (1 - label_smoothing) x[target] - label_smoothing mean(x);
// the result is the rows' mean, their sum, or all of them (torch.nn.functional.cross_entropy).  A
// row whose target is ignore_index has loss and gradient 0, and the mean is over the other rows:
// NaN if there is none.  It is computed in f32, and the losses are f32, whatever the type of the
// logits, as under torch.autocast.  Rows must be whole on each PE and may be split as the targets
// are; then the mean and the sum are partial.  They must fit scratch several times in f32: with 2
// MiB up to 131,000 classes, 95,000 with gradients; for more, ranks share them
// (tp::vocab_parallel_cross_entropy).
//
// The host reads the targets (ADR-0161) and waits for the operations that they depend on.  In a
// context without data all rows count.
// Throws DeviceError KB-F001, KB-F002 for targets of another type, KB-F003, KB-F004 for a target
// that is neither a class nor ignored, with torch's text, and KB-M010.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});

}  // namespace kernbench::nn::functional
