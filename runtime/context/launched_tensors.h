// The tensors that a launch was given, for what its kernels are told about them.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

struct LaunchedTensors {
  std::vector<Tensor> tensors;  // the first says on which PEs the kernel runs
};

// What is wrong with using a tensor, which is told by the address of its name, on a PE that has no
// part of it.
std::string describe_absent(const LaunchedTensors& launched, const std::string& tensor_name);

}  // namespace kernbench::runtime
