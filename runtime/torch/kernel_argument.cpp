// What an argument of launch() becomes for the kernel of one PE.

#include "runtime/launch/launched_tensors.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench {

std::shared_ptr<const runtime::LaunchedTensors> runtime::launched_tensors(
    std::vector<Tensor> tensors) {
  return std::make_shared<const LaunchedTensors>(std::move(tensors));
}

void runtime::collect_tensor(std::vector<Tensor>& tensors, const Tensor& tensor) {
  tensors.push_back(tensor);
}

tl::Pointer runtime::kernel_argument(const Tensor& tensor, const sim::PeLocation& pe,
                                     const LaunchedTensors& launched) {
  for (const sim::DeviceBuffer& buffer : tensor.storage()->buffers()) {
    if (buffer.home == pe) return {buffer, tensor.storage()->name};
  }
  return {tensor.storage()->name, launched};
}

}  // namespace kernbench
