#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::nn::utils {

struct ClipOptions {
  bool error_if_nonfinite = false;
};

// Scales the gradients so that their 2-norm together is at most max_norm, and returns what it was
// (torch.nn.utils.clip_grad_norm_): each is multiplied by max_norm / (norm + 1e-6), at most 1.
// Parameters without a gradient are left out.  Of shards of parameters (fully_shard) it is the norm
// of the whole gradients: ranks add up their squares by an all_reduce of one f32 number for each
// group.  The host reads the norms, and so waits.  In a
// context without data the gradients are multiplied by 1, and the norm is 0. Throws DeviceError
// KB-F003 for a partial gradient; CollectiveError KB-A013, in torch's words, for a norm that is not
// finite, if error_if_nonfinite.
double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm,
                       const ClipOptions& options = {});

// Moves each element of the gradients into [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);

}  // namespace kernbench::nn::utils
