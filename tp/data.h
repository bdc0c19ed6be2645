// megatron.core.tensor_parallel.data: one rank reads the data and broadcasts them to its group.

#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

using TensorDict = std::map<std::string, Tensor, std::less<>>;

// For each key, every rank of the group gets data[key] of the group's first rank, as a tensor of
// type `dtype` on its device (one copy).  The `data` of the other ranks is ignored.  Communication:
// the shapes as objects, then one broadcast of all elements.  `tp_group`: by default the caller's
// tensor model parallel group.  Throws CollectiveError KB-T005 if a key is missing, or a tensor on
// a device has another type.
TensorDict broadcast_data(RuntimeContext& torch, std::span<const std::string> keys,
                          const TensorDict& data, DType dtype,
                          const std::optional<distributed::ProcessGroup>& tp_group = std::nullopt);

}  // namespace kernbench::tp
