// megatron.core.utils.GlobalMemoryBuffer.

#pragma once

#include <map>
#include <string>
#include <utility>

#include "runtime/context/runtime_context.h"

namespace kernbench::tp {

// Memory that is used again and again for what is needed for a short while, so that it is not
// allocated each time.
class GlobalMemoryBuffer {
 public:
  // A tensor on the caller's device whose elements may be anything.  The next call with this name
  // and type gets the same memory if it asks for as many elements, placed alike; else the buffer
  // holds on to that tensor's instead.
  Tensor get_tensor(RuntimeContext& torch, const Shape& shape, DType dtype, const std::string& name,
                    const DPPolicy& dp = DPPolicy::replicated());

 private:
  std::map<std::pair<std::string, DType>, Tensor> buffers_;
};

}  // namespace kernbench::tp
