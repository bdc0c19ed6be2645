// torch.nn.SyncBatchNorm, as torch/nn/modules/_functions.py computes it: one all_gather of 2 c + 1
// numbers in the forward pass, and one all_reduce of 2 c in the backward pass.

#include <fmt/format.h>

#include <utility>

#include "runtime/autograd/autograd.h"
#include "runtime/functional/operators.h"
#include "runtime/functional/shape_operators.h"
#include "runtime/ops/device_kernel.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/distributed_data_parallel.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/context_of.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::nn {

namespace {

// Numbers [c] beside x [n, c, ...].
Tensor along_channels(const Tensor& numbers, const Tensor& x) {
  std::vector<std::int64_t> sizes(x.shape().rank(), 1);
  sizes[1] = numbers.numel();
  return reshape(numbers, Shape(sizes));
}

Tensor sum_of_channels(const Tensor& x) {
  return sum(flatten(transpose(x, 0, 1), 1), 1);  // [c]
}

struct SyncedStatistics {
  Tensor mean;      // [c], of all ranks' batches
  Tensor variance;  // [c], divided by the number of elements
  Tensor count;     // [1], of elements of a channel
};

// This rank's mean and variance [c] and count; zeros of an empty batch, which so counts for
// nothing.
Tensor own_statistics(const Tensor& x) {
  const std::int64_t channels = x.size(1);
  const std::int64_t count = x.numel() / channels;
  const Tensor counts = ops::make_like(x, "count", {1}, DType::f32, ops::placement_of(x));
  runtime::fill(*counts.storage(), static_cast<float>(count));
  if (count == 0) {
    const Tensor none =
        ops::make_like(x, "statistics", {2 * channels}, DType::f32, ops::placement_of(x));
    runtime::fill(*none.storage(), 0);
    return cat({none, counts});
  }
  const auto size = static_cast<double>(count);
  const Tensor mean = sum_of_channels(x) / size;
  const Tensor variance = sum_of_channels(square(x - along_channels(mean, x))) / size;
  return cat({mean, variance, counts});
}

SyncedStatistics gather_statistics(RuntimeContext& torch, const Tensor& x,
                                   const distributed::ProcessGroup& group) {
  const std::int64_t channels = x.size(1);
  const Tensor own = own_statistics(x);
  const std::int64_t ranks = torch.distributed.get_world_size(group);
  const Tensor all = ops::make_like(own, "statistics of ranks", {ranks * own.numel()}, DType::f32,
                                    ops::placement_of(own));
  torch.distributed.all_gather_into_tensor(all, own, {.group = group});
  const Tensor table = reshape(all, {ranks, own.numel()});
  const Tensor means = narrow(table, 1, 0, channels);
  const Tensor variances = narrow(table, 1, channels, channels);
  const Tensor counts = narrow(table, 1, 2 * channels, 1);
  SyncedStatistics of_all;
  of_all.count = sum(counts, {0});
  of_all.mean = sum(means * counts, {0}) / of_all.count;
  of_all.variance = sum((variances + square(means - of_all.mean)) * counts, {0}) / of_all.count;
  return of_all;
}

void move_running_statistics(const BatchNormImpl& of, const SyncedStatistics& statistics) {
  if (!of.options.track_running_stats()) return;
  const Tensor unbiased = statistics.variance * (statistics.count / (statistics.count - 1));
  const auto moved = [&](const Tensor& running, const Tensor& to) {
    running.lerp_(to.to(running.dtype()), of.options.momentum());
  };
  moved(of.running_mean, statistics.mean);
  moved(of.running_var, unbiased);
}

// The gradients of x, weight and bias.  Those of weight and bias are this rank's alone: data
// parallel training reduces them.
struct SyncBatchNormBackward {
  RuntimeContext& torch;
  distributed::ProcessGroup group;
  autograd::SavedTensor input;
  autograd::SavedTensor weight;
  SyncedStatistics statistics;
  Tensor inverse;  // 1 / sqrt(variance + eps)
  bool wants_input = true;

  std::vector<Tensor> operator()(const Tensor& gradient) const {
    const Tensor dy = gradient.to(DType::f32);
    const Tensor x = input.get().to(DType::f32);
    const Tensor centered = x - along_channels(statistics.mean, x);
    const Tensor sum_dy = sum_of_channels(dy);
    const Tensor sum_dy_xmu = sum_of_channels(dy * centered);
    std::vector<Tensor> gradients(3);
    if (const Tensor& scale = weight.get(); scale.defined()) {
      gradients[1] = (sum_dy_xmu * inverse).to(scale.dtype());
      gradients[2] = sum_dy.to(scale.dtype());
    }
    if (wants_input) gradients[0] = of_input(dy, centered, sum_dy, sum_dy_xmu).to(gradient.dtype());
    return gradients;
  }

 private:
  Tensor of_input(const Tensor& dy, const Tensor& centered, const Tensor& sum_dy,
                  const Tensor& sum_dy_xmu) const {
    const Tensor sums = cat({sum_dy, sum_dy_xmu});
    torch.distributed.all_reduce(sums, {.group = group});
    const std::int64_t channels = sum_dy.numel();
    const Tensor mean_dy = narrow(sums, 0, 0, channels) / statistics.count;
    const Tensor mean_dy_xmu = narrow(sums, 0, channels, channels) / statistics.count;
    const Tensor slope = square(inverse) * mean_dy_xmu;
    const Tensor& scale = weight.get();
    const Tensor factor = scale.defined() ? inverse * scale.to(DType::f32) : inverse;
    return (dy - along_channels(mean_dy, dy) - centered * along_channels(slope, dy)) *
           along_channels(factor, dy);
  }
};

void check_input(const Tensor& x) {
  ops::check_operands("SyncBatchNorm", {x});
  if (x.dim() < 2) {
    ops::refuse_shapes("SyncBatchNorm",
                       fmt::format("expected at least 2D input (got {}D input)", x.dim()));
  }
  if (x.size(1) == 0) {
    ops::refuse_shapes("SyncBatchNorm",
                       "SyncBatchNorm number of input channels should be non-zero");
  }
  ops::check_is_uncut("SyncBatchNorm", x, 0);
  ops::check_is_uncut("SyncBatchNorm", x, 1);
}

// Undefined if the group's ranks are this one alone: BatchNorm does it then.
Tensor normalize_over_ranks(const BatchNormImpl& of, const Tensor& input,
                            const distributed::ProcessGroup& group) {
  check_input(input);
  RuntimeContext& torch = runtime::context_of(*input.storage()->simulation);
  if (torch.distributed.get_world_size(group) <= 1) return {};
  const auto compute = [&](SyncedStatistics& statistics, Tensor& inverse) {
    const NoGradGuard no_grad(torch);
    const Tensor x = input.to(DType::f32);
    statistics = gather_statistics(torch, x, group);
    move_running_statistics(of, statistics);
    inverse = rsqrt(statistics.variance + of.options.eps());
    Tensor y = (x - along_channels(statistics.mean, x)) * along_channels(inverse, x);
    if (of.weight.defined()) y = y * along_channels(of.weight, y) + along_channels(of.bias, y);
    return y.to(input.dtype());
  };
  SyncedStatistics statistics;
  Tensor inverse;
  const Tensor y = compute(statistics, inverse);
  return autograd::record("SyncBatchNorm", y, {input, of.weight, of.bias},
                          SyncBatchNormBackward{torch, group, autograd::SavedTensor(input),
                                                autograd::SavedTensor(of.weight), statistics,
                                                inverse, autograd::needs_grad(input)});
}

void synchronize(BatchNormImpl& norm, const distributed::ProcessGroup& group) {
  norm.in_training = [group](const BatchNormImpl& of, const Tensor& x) {
    return normalize_over_ranks(of, x, group);
  };
}

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const RuntimeContext& torch, const BatchNormOptions& of,
                                     const distributed::ProcessGroup& group,
                                     const TensorOptions& tensors)
    : BatchNormImpl(torch, of, tensors) {
  synchronize(*this, group);
}

void SyncBatchNorm::convert(Module& module, const distributed::ProcessGroup& group) {
  module.apply([&](Module& each) {
    if (auto* const norm = dynamic_cast<BatchNormImpl*>(&each)) synchronize(*norm, group);
  });
}

}  // namespace kernbench::nn
