#include "runtime/launch/launched_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tensor/describe.h"

namespace kernbench::runtime {

std::string LaunchedTensors::describe_absent(const std::string& tensor_name) const {
  const auto found =
      std::ranges::find(tensors, &tensor_name, [](const Tensor& tensor) { return &tensor.name(); });
  return fmt::format(
      "this PE has no part of tensor argument {}, {}; the launch runs on the PEs of its first "
      "tensor, '{}': make '{}' with .dp = {}",
      found - tensors.begin() + 1, describe(*found), tensors.front().name(), tensor_name,
      words_for(placed(tensors.front())));
}

}  // namespace kernbench::runtime
