#include "runtime/context/launched_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/tensor/describe.h"

namespace kernbench::runtime {

std::string describe_absent(const LaunchedTensors& launched, const std::string& tensor_name) {
  const auto found = std::ranges::find(launched.tensors, &tensor_name,
                                       [](const Tensor& tensor) { return &tensor.name(); });
  return fmt::format(
      "this PE has no part of tensor argument {}, {}; the launch runs on the PEs of its first "
      "tensor, '{}': make '{}' with .dp = {}",
      found - launched.tensors.begin() + 1, describe(*found), launched.tensors.front().name(),
      tensor_name, words_for(placed(launched.tensors.front())));
}

}  // namespace kernbench::runtime
