// The tensors of a launch, from which errors of its kernels name the right one.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace kernbench::runtime {

struct LaunchedTensors {
  std::vector<Tensor> tensors;  // the first one determines the PEs that run the kernel
};

// Describes why a PE that holds no part of a tensor cannot use it.  The tensor is identified by
// the address of its name.
std::string describe_absent(const LaunchedTensors& launched, const std::string& tensor_name);

}  // namespace kernbench::runtime
