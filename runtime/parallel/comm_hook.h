// Communication hooks: how the gradients of a bucket become their mean, where all_reduce shall not
// do it (torch.distributed.algorithms.ddp_comm_hooks).
//
//   ddp->register_comm_hook(kb::distributed::ProcessGroup(), kb::nn::parallel::fp16_compress_hook);

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/distributed/process_group.h"
#include "runtime/distributed/work.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn::parallel {

using distributed::Future;

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

// Reduces as DistributedDataParallel does without a hook, but divides in a kernel of its own.
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

// Post-local SGD (torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook): gradients are
// averaged over all ranks at first, then over a subgroup, and parameters over all ranks now and
// then.
//
//   auto state = std::make_shared<PostLocalSGDState>(ProcessGroup(), subgroup, 100);
//   ddp->register_comm_hook(state, post_localSGD_hook);
//   PostLocalSGDOptimizer optimizer(sgd, PeriodicModelAverager(4, 100));

struct PostLocalSGDState {
  // Without a subgroup it is all ranks: a simulated machine is one node.
  explicit PostLocalSGDState(distributed::ProcessGroup its_process_group,
                             distributed::ProcessGroup its_subgroup,
                             std::int64_t its_start_localSGD_iter,
                             bool its_post_local_gradient_allreduce = true)
      : process_group(std::move(its_process_group)),
        subgroup(std::move(its_subgroup)),
        start_localSGD_iter(its_start_localSGD_iter),
        post_local_gradient_allreduce(its_post_local_gradient_allreduce) {}

  distributed::ProcessGroup process_group;
  distributed::ProcessGroup subgroup;
  std::int64_t start_localSGD_iter;
  bool post_local_gradient_allreduce;  // false: later gradients stay on their ranks
  std::int64_t iter = 0;               // steps so far, at most start_localSGD_iter
};
Future post_localSGD_hook(const std::shared_ptr<PostLocalSGDState>& state, GradBucket& bucket);

// torch.distributed.algorithms.model_averaging.averagers.PeriodicModelAverager.
class PeriodicModelAverager {
 public:
  // Throws CollectiveError KB-A015, in torch's words, for a period below 1 or negative steps.
  explicit PeriodicModelAverager(std::int64_t period, std::int64_t warmup_steps = 0,
                                 distributed::ProcessGroup process_group = {});
  // Call it after each step: in each period-th one from warmup_steps on, parameters that have a
  // gradient become their mean over the group, by an all_reduce for each kind of them.
  void average_parameters(const std::vector<Tensor>& parameters);

  const std::int64_t period;
  const std::int64_t warmup_steps;
  const distributed::ProcessGroup process_group;
  std::int64_t step = 0;  // calls so far
};

void warn_of_lost_averager_step();

// torch.distributed.optim.PostLocalSGDOptimizer: steps, then averages.  The optimizer lives longer.
template <class Optimizer>
class PostLocalSGDOptimizer {
 public:
  PostLocalSGDOptimizer(Optimizer& optim, PeriodicModelAverager its_averager)
      : averager(std::move(its_averager)), optim_(optim) {}
  void step() {
    optim_.step();
    averager.average_parameters(optim_.parameters());
  }
  void zero_grad(bool set_to_none = true) { optim_.zero_grad(set_to_none); }
  // The optimizer's, with the averager's step as number "step".
  auto state_dict() const {
    auto state = optim_.state_dict();
    state.numbers.insert("step", static_cast<double>(averager.step));
    return state;
  }
  template <class State>
  void load_state_dict(const State& state) {
    optim_.load_state_dict(state);
    const double* const step = state.numbers.find("step");
    if (step == nullptr) warn_of_lost_averager_step();
    averager.step = step == nullptr ? 0 : static_cast<std::int64_t>(*step);
  }

  PeriodicModelAverager averager;

 private:
  Optimizer& optim_;
};

// The optimizers that update what a bucket has reduced (torch's _OptimizerHookState).
class OptimizerHookState {
 public:
  // `make` makes an optimizer of a parameter: `[](auto params) { return
  // std::make_unique<kb::optim::SGD>(params, 0.1); }`.  Without params_to_optimize all are updated.
  template <class Make>
  explicit OptimizerHookState(Make make, std::vector<Tensor> params_to_optimize = {})
      : make_([make = std::move(make)](std::vector<Tensor> parameters) {
          return [made = std::shared_ptr(make(std::move(parameters)))] { made->step(); };
        }),
        params_to_optimize_(std::move(params_to_optimize)) {}

  // Throws DeviceError KB-F003 if holders have parts of the bucket.
  void step(const GradBucket& bucket);

 private:
  void step_param(Tensor parameter, const Tensor& gradient);

  std::function<std::function<void()>(std::vector<Tensor>)> make_;
  std::vector<Tensor> params_to_optimize_;
  std::map<const Tensor::Storage*, std::function<void()>> steps_;  // never iterated
};

// Returns a hook that calls another one, and updates the bucket's parameters when backward() takes
// its mean: beside the reductions of later buckets.
template <class Hook>
auto _hook_then_optimizer(Hook hook, std::shared_ptr<OptimizerHookState> optimizer_state) {
  return [hook = std::move(hook), optimizer_state](auto& state, GradBucket& bucket) mutable {
    return hook(state, bucket).then([optimizer_state, bucket](const Tensor& mean) {
      GradBucket reduced = bucket;
      reduced.set_buffer(mean);
      optimizer_state->step(reduced);
      return mean;
    });
  };
}

}  // namespace kernbench::nn::parallel
