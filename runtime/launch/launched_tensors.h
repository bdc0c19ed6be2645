// The tensors of a launch, from which errors of its kernels name the right one.

#pragma once

#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "runtime/tl/launch_arguments.h"

namespace kernbench::runtime {

struct LaunchedTensors final : tl::LaunchArguments {
  std::vector<Tensor> tensors;  // the first one determines the PEs that run the kernel

  explicit LaunchedTensors(std::vector<Tensor> those) : tensors(std::move(those)) {}

  std::string describe_absent(const std::string& tensor_name) const override;
};

}  // namespace kernbench::runtime
