// megatron.core.tensor_parallel.data: one rank reads the data, its group gets them.

#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "runtime/context/runtime_context.h"

namespace kernbench::tp {

using TensorDict = std::map<std::string, Tensor, std::less<>>;

// data[key] of the group's first rank for each key, on every rank of the group as a tensor on its
// device (one copy), of type `dtype`.  What the others pass as `data` is not looked at.
// Communication: the shapes as objects, then one broadcast of all elements.
// `tp_group`: by default the caller's tensor model parallel group.
// Throws CollectiveError KB-T005 if a key is missing, or a tensor on a device has another type.
TensorDict broadcast_data(RuntimeContext& torch, std::span<const std::string> keys,
                          const TensorDict& data, DType dtype,
                          const std::optional<distributed::ProcessGroup>& tp_group = std::nullopt);

}  // namespace kernbench::tp
