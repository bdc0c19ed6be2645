#include "runtime/parallel/comm_hook.h"

#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/flat_buffer.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::nn::parallel {

// The buffer has no gaps: FlatLayout::alignment is 1.
std::vector<Tensor> GradBucket::gradients() const {
  std::vector<Tensor> gradients;
  const ops::Placement placement = ops::placement_of(buffer_);
  const bool is_whole = placement.cube.is_replicate() && placement.pe.is_replicate();
  std::int64_t begin = 0;
  for (const Tensor& parameter : parameters_) {
    const std::int64_t length = parameter.numel();
    gradients.push_back(is_whole ? reshape(buffer_.narrow(0, begin, length), parameter.shape())
                                 : Tensor());
    begin += length;
  }
  return gradients;
}

namespace {

// Divides first, so that sums do not overflow.
Future average(const distributed::ProcessGroup& group, GradBucket& bucket, const Tensor& buffer) {
  auto& distributed = bucket.torch().distributed;
  buffer.div_(distributed.get_world_size(group));
  return {distributed.all_reduce(buffer, {.group = group, .async_op = true}), buffer};
}

}  // namespace

Future allreduce_hook(const distributed::ProcessGroup& group, GradBucket& bucket) {
  return average(group, bucket, bucket.buffer());
}

Future fp16_compress_hook(const distributed::ProcessGroup& group, GradBucket& bucket) {
  return average(group, bucket, bucket.buffer().to(DType::f16));
}

Future bf16_compress_hook(const distributed::ProcessGroup& group, GradBucket& bucket) {
  return average(group, bucket, bucket.buffer().to(DType::bf16));
}

}  // namespace kernbench::nn::parallel
