// megatron.core.utils.GlobalMemoryBuffer.

#pragma once

#include <map>
#include <string>
#include <utility>

#include "runtime/torch/runtime_context.h"

namespace kernbench::tp {

// Memory that is reused for short-lived tensors, so that it is not allocated each time.
class GlobalMemoryBuffer {
 public:
  // A tensor on the caller's device with unspecified elements.  The next call with this name and
  // type gets the same memory if it asks for the same number of elements with the same placement;
  // else the buffer keeps the new tensor's memory instead.
  Tensor get_tensor(RuntimeContext& torch, const Shape& shape, DType dtype, const std::string& name,
                    const DPPolicy& dp = DPPolicy::on_one_pe());

 private:
  std::map<std::pair<std::string, DType>, Tensor> buffers_;
};

}  // namespace kernbench::tp
