// Communication hooks: how the gradients of a bucket become their mean, where all_reduce shall not
// do it (torch.distributed.algorithms.ddp_comm_hooks).
//
//   ddp->register_comm_hook(kb::distributed::ProcessGroup(), kb::nn::parallel::fp16_compress_hook);

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/tensor/tensor.h"
#include "sim_engine/base/function.h"
#include "sim_engine/base/memory.h"

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

// PowerSGD: sends factors of low rank instead of gradients
// (torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook, of torch 1.13; ADR-0241).
//
//   ddp->register_comm_hook(std::make_shared<kb::nn::parallel::PowerSGDState>(
//       kb::nn::parallel::PowerSGDOptions{.start_powerSGD_iter = 10}),
//       kb::nn::parallel::powerSGD_hook);

// The arguments of torch's PowerSGDState, with its defaults.
struct PowerSGDOptions {
  distributed::ProcessGroup process_group = {};
  std::int64_t matrix_approximation_rank = 1;
  std::int64_t start_powerSGD_iter = 1000;  // before this step gradients are reduced as they are
  // A gradient [n, m] is compressed if (n + m) rank times this is less than n m; of more
  // dimensions, the last ones are one.
  double min_compression_rate = 2;
  bool use_error_feedback = true;  // what one step loses is added to the next one's gradients
  bool warm_start = true;          // a step begins with the last one's Q, not with random numbers
  double orthogonalization_epsilon = 0;
  std::uint32_t random_seed = 0;  // the same on all ranks
};

// One rank's state, of one DistributedDataParallel.
class PowerSGDState {
 public:
  // Throws CollectiveError KB-A015, in torch's words, if start_powerSGD_iter is below 2, but for
  // neither error feedback nor a warm start.
  explicit PowerSGDState(const PowerSGDOptions& its_options = {});
  // A copy would take its random numbers from the same generator.
  PowerSGDState(const PowerSGDState&) = delete;
  PowerSGDState& operator=(const PowerSGDState&) = delete;

  const PowerSGDOptions options;
  std::int64_t iter = 0;                 // steps so far
  std::map<std::size_t, Tensor> errors;  // by bucket
  struct Memory;
  const std::shared_ptr<Memory> memory;
};

// Three all_reduces of a bucket, each after the one before: of gradients that are not compressed,
// of P = M Q for each matrix M, and of Q = M^T P with P orthogonal; the mean is P Q^T.
// Throws DeviceError KB-F003 if holders have parts of the bucket.
Future powerSGD_hook(const std::shared_ptr<PowerSGDState>& state, GradBucket& bucket);

}  // namespace kernbench::nn::parallel
