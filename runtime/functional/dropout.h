#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::functional {

// In training, sets each element to 0 with probability p and multiplies the others by 1 / (1 - p);
// else x itself.  The mask comes from the generator of the device and is the same with every
// placement of x; the host draws it outside of simulated time, and the kernel loads it (ADR-0208).
// x may be partial.  Throws DeviceError KB-F001, in torch's words, for a p outside of [0, 1].
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace kernbench::nn::functional

namespace kernbench {

// Random choices, drawn as those of dropout(); no gradient flows through them.
//
// multinomial: num_samples indices of each row of [k] or [n, k], i64, where those of larger numbers
// are more probable: in proportion, if the numbers of a row are summed up (torch.multinomial). Each
// is chosen once unless there is `replacement`.  The host reads x and throws DeviceError KB-F001,
// in torch's words, for what are no weights. bernoulli: 1 with the probability that each element
// is, else 0, in x's type (torch.bernoulli).
Tensor multinomial(const Tensor& x, std::int64_t num_samples, bool replacement = false);
Tensor bernoulli(const Tensor& x);

}  // namespace kernbench
