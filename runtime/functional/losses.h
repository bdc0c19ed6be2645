// Losses besides cross_entropy.

#pragma once

#include <cstdint>

#include "runtime/functional/cross_entropy.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// (input - target)^2 and |input - target|: their mean, their sum, or all of them.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

// -input[i, target[i]] of each row, for log-probabilities [n, c] and classes [n]; 0 where the
// target is ignore_index, and the mean is over the other rows.  Classes are compared with a range
// [c] on the device; the input is whole on each PE (KB-F003).  The host reads the targets, as
// cross_entropy does: one that is no class is refused with torch's text (KB-F004).
Tensor nll_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                std::int64_t ignore_index = -100);

}  // namespace kernbench::nn::functional
