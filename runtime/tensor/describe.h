// Tensors and placements in messages: what they are, and what a user writes to have them so.

#pragma once

#include <string>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

// A tensor's policy, with the numbers of cubes and PEs that 0 stands for.
// REQUIRES: the tensor is on a device
DPPolicy placed(const Tensor& tensor);

// "tensor 'x' [4, 8] f16 (cube=replicate, pe=column_wise, num_cubes=1, num_pes=2) on device 0".
// REQUIRES: likewise
std::string describe(const Tensor& tensor);

// As it is written in C++: "kb::DPPolicy::replicated()", or "{.cube = kb::Shard::replicate, ...}".
std::string words_for(const DPPolicy& policy);
// "kb::DType::f16".
std::string words_for(DType dtype);

}  // namespace kernbench::runtime
