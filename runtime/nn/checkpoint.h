#pragma once

#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"

namespace kernbench::nn::utils {

// Calls function(inputs) and keeps the inputs alone: what lies between is computed again when the
// gradient comes by (torch.utils.checkpoint, reentrant).  Random numbers are the same the
// second time.  As in torch, gradients flow only if one of the inputs requires one.
//   const Tensor y = checkpoint([&](const auto& in) { return block(in[0]); }, {x});
Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>& inputs)>& function,
                  const std::vector<Tensor>& inputs);

}  // namespace kernbench::nn::utils
