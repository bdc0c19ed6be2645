// Communication hooks: how the gradients of a bucket become their mean, where all_reduce shall not
// do it (torch.distributed.algorithms.ddp_comm_hooks).
//
//   ddp->register_comm_hook(kb::distributed::ProcessGroup(), kb::nn::parallel::fp16_compress_hook);

#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

// A tensor that a collective is computing (torch.futures.Future).
class Future {
 public:
  explicit Future(Tensor value) : value_(std::move(value)) {}
  Future(distributed::Work work, Tensor value) : work_(std::move(work)), value_(std::move(value)) {}

  // Returns a future whose wait() gives next(value), as torch.futures.Future.then() does.
  Future then(std::function<Tensor(const Tensor& value)> next) &&;
  // Waits for the collective, as Work::wait() does, and returns what becomes of the value.
  Tensor wait();
  const distributed::Work& work() const { return work_; }

 private:
  distributed::Work work_;  // None: there is nothing to wait for
  Tensor value_;
  std::vector<std::function<Tensor(const Tensor&)>> next_;
};

// A bucket whose gradients are all there, as a hook gets it (dist.GradBucket).
class GradBucket {
 public:
  GradBucket(RuntimeContext& torch, std::size_t index, bool is_last, Tensor buffer,
             std::vector<Tensor> parameters)
      : torch_(torch),
        index_(index),
        is_last_(is_last),
        buffer_(std::move(buffer)),
        parameters_(std::move(parameters)) {}

  RuntimeContext& torch() const { return torch_; }
  std::size_t index() const { return index_; }
  bool is_last() const { return is_last_; }
  // The gradients one after the other, not yet divided by the number of ranks.
  const Tensor& buffer() const { return buffer_; }
  void set_buffer(Tensor buffer) { buffer_ = std::move(buffer); }
  const std::vector<Tensor>& parameters() const { return parameters_; }
  // The gradients as views of the buffer, in the order of the parameters; undefined where holders
  // have parts of it, or summands.
  std::vector<Tensor> gradients() const;

 private:
  RuntimeContext& torch_;
  std::size_t index_;
  bool is_last_;
  Tensor buffer_;
  std::vector<Tensor> parameters_;
};

// Returns a future of the mean of all ranks' buffers, in any type.
using CommHook = std::function<Future(GradBucket& bucket)>;

// What DistributedDataParallel does without a hook, but divides in a kernel of its own.
Future allreduce_hook(const distributed::ProcessGroup& group, GradBucket& bucket);
// Round the buffer to f16 or bf16, divide, and reduce that: half of the bytes.
Future fp16_compress_hook(const distributed::ProcessGroup& group, GradBucket& bucket);
Future bf16_compress_hook(const distributed::ProcessGroup& group, GradBucket& bucket);

// Return a hook that calls another one with the buffer rounded to f16, or bf16.
template <DType dtype, class Hook>
auto compress_wrapper(Hook hook) {
  return [hook = std::move(hook)](auto& state, GradBucket& bucket) mutable {
    bucket.set_buffer(bucket.buffer().to(dtype));
    return hook(state, bucket);
  };
}
template <class Hook>
auto fp16_compress_wrapper(Hook hook) {
  return compress_wrapper<DType::f16>(std::move(hook));
}
template <class Hook>
auto bf16_compress_wrapper(Hook hook) {
  return compress_wrapper<DType::bf16>(std::move(hook));
}

}  // namespace kernbench::nn::parallel
