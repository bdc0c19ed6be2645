#include "tp/global_memory_buffer.h"

#include "runtime/functional/shape_operators.h"

namespace kernbench::tp {

Tensor GlobalMemoryBuffer::get_tensor(RuntimeContext& torch, const Shape& shape, DType dtype,
                                      const std::string& name, const DPPolicy& dp) {
  Tensor& buffer = buffers_[{name, dtype}];
  const bool fits = buffer.defined() && buffer.numel() == shape.numel() && buffer.dp() == dp &&
                    buffer.device() == torch.ahbm.current_device();
  if (!fits) buffer = torch.empty(shape, {.dtype = dtype, .dp = dp, .name = name});
  return buffer.shape() == shape ? buffer : reshape(buffer, shape);
}

}  // namespace kernbench::tp
