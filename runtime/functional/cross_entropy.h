#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

enum class Reduction : std::uint8_t { mean, sum, none };

struct CrossEntropyOptions {
  double label_smoothing = 0;  // from 0 to 1: what is spread evenly over all classes
  Reduction reduction = Reduction::mean;
};

// For logits [n, c] and the numbers of classes [n] in f32: for each row
//   log(sum(exp(x))) - (1 - label_smoothing) x[target] - label_smoothing mean(x),
// and their mean, their sum, or all (torch.nn.functional.cross_entropy; no class is ignored).
// Computed in f32, and the losses are f32, whatever the type of the logits, as under
// torch.autocast.  A target that is no class picks nothing: its row's loss is log(sum(exp(x))) -
// label_smoothing mean(x).  Rows must be whole on each PE and may be cut like the targets; then the
// mean and the sum are partial.  They must fit scratch several times in f32: with 2 MiB up to
// 131,000 classes, 95,000 with gradients; more are shared by ranks
// (tp::vocab_parallel_cross_entropy).
// Throws DeviceError KB-F001, KB-F002 for targets that are not f32, KB-F003, KB-M010.
Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options = {});

}  // namespace kernbench::nn::functional
