// Losses besides cross_entropy.

#pragma once

#include <cstdint>

#include "runtime/functional/cross_entropy.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// (input - target)^2 and |input - target|: their mean, their sum, or all of them.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

// -(target log(p) + (1 - target) log(1 - p)) for p = sigmoid(input), as target softplus(-x) +
// (1 - target) softplus(x), which no size of x makes infinite and in which no digits cancel.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        Reduction reduction = Reduction::mean);
// distance^2 / (2 beta) below beta, and |distance| - beta / 2 from there on.  Of beta = 0
// it is l1_loss().  KB-F001 for a negative beta.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      Reduction reduction = Reduction::mean, double beta = 1);

// distance^2 / 2 below delta, and delta (|distance| - delta / 2) from there on.  KB-F001 for a
// delta that is not above 0.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                  double delta = 1);
// -(target log(p) + (1 - target) log(1 - p)) of probabilities, whose logarithms are at least -100,
// as torch's.  Of logits, binary_cross_entropy_with_logits() loses no digits.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            Reduction reduction = Reduction::mean);

struct KlDivOptions {
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target is one of logarithms
};
// target (log(target) - input), for an input of logarithms; 0 where the target is 0.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

// The products of a and b, each divided by its length, which is at least eps, along a dimension.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int dim = 1, double eps = 1e-8);

// -input[i, target[i]] of each row, for log-probabilities [n, c] and classes [n]; 0 where the
// target is ignore_index, and the mean is over the other rows.  Classes are compared with a range
// [c] on the device; the input is whole on each PE (KB-F003).  The host reads the targets, as
// cross_entropy does: one that is no class is refused with torch's text (KB-F004).
Tensor nll_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                std::int64_t ignore_index = -100);

}  // namespace kernbench::nn::functional
