// Describes tensors and placements in messages, and gives the C++ text with which a user would
// create them.

#pragma once

#include <string>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

// Returns a tensor's policy with the actual numbers of cubes and PEs instead of 0.
// REQUIRES: the tensor is on a device
DPPolicy placed(const Tensor& tensor);

// "tensor 'x' [4, 8] f16 (cube=replicate, pe=column_wise, num_cubes=1, num_pes=2) on device 0".
// REQUIRES: the tensor is on a device
std::string describe(const Tensor& tensor);

// The C++ text of a policy: "kb::DPPolicy::on_one_pe()", or "{.cube = kb::Shard::replicate,
// ...}".
std::string words_for(const DPPolicy& policy);
// The C++ text of a type: "kb::DType::f16".
std::string words_for(DType dtype);

}  // namespace kernbench::runtime
