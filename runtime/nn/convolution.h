// Layers of images and of sequences [n, channels, ...]: convolutions, normalization of channels and
// pooling, with torch's names, arguments and initial values.  Their functions are
// runtime/functional's.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/functional/functional.h"
#include "runtime/nn/containers.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::nn {

using functional::Pair;

// The options of Conv2d, and of Conv1d, which reads the widths alone.
class ConvOptions {
 public:
  ConvOptions(std::int64_t in_channels, std::int64_t out_channels, const Pair& kernel_size)
      : in_channels_(in_channels), out_channels_(out_channels), kernel_size_(kernel_size) {}
  std::int64_t in_channels() const { return in_channels_; }
  std::int64_t out_channels() const { return out_channels_; }
  const Pair& kernel_size() const { return kernel_size_; }
  KERNBENCH_OPTION(Pair, stride, 1);
  KERNBENCH_OPTION(Pair, padding, 0);
  KERNBENCH_OPTION(Pair, dilation, 1);
  KERNBENCH_OPTION(std::int64_t, groups, 1);
  KERNBENCH_OPTION(bool, bias, true);

 private:
  std::int64_t in_channels_;
  std::int64_t out_channels_;
  Pair kernel_size_;
};
using Conv1dOptions = ConvOptions;
using Conv2dOptions = ConvOptions;

// Weight and bias begin uniform within 1 / sqrt(channels of a group x the kernel's elements).
struct ConvImpl : CopyableModule {
  std::string extra_repr() const override;

  ConvOptions options;
  Tensor weight;
  Tensor bias;

 protected:
  // Throws CollectiveError KB-A010, in torch's words, for groups that do not divide the channels.
  ConvImpl(const RuntimeContext& torch, const ConvOptions& of, bool is_image,
           const TensorOptions& tensors);
  functional::ConvOptions form() const;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight, bias); }
  bool is_image_;
};
// [n, in, l] -> [n, out, count]
struct Conv1dImpl : Layer<Conv1dImpl, ConvImpl> {
  Conv1dImpl(const RuntimeContext& torch, const ConvOptions& of, const TensorOptions& tensors = {})
      : Layer(torch, of, false, tensors) {}
  Conv1dImpl(const RuntimeContext& torch, std::int64_t in, std::int64_t out, std::int64_t kernel,
             const TensorOptions& tensors = {})
      : Conv1dImpl(torch, ConvOptions(in, out, kernel), tensors) {}
  Tensor forward(const Tensor& x) const { return functional::conv1d(x, weight, bias, form()); }
};
KERNBENCH_MODULE(Conv1d);
// [n, in, h, w] -> [n, out, rows, columns]
struct Conv2dImpl : Layer<Conv2dImpl, ConvImpl> {
  Conv2dImpl(const RuntimeContext& torch, const ConvOptions& of, const TensorOptions& tensors = {})
      : Layer(torch, of, true, tensors) {}
  Conv2dImpl(const RuntimeContext& torch, std::int64_t in, std::int64_t out, const Pair& kernel,
             const TensorOptions& tensors = {})
      : Conv2dImpl(torch, ConvOptions(in, out, kernel), tensors) {}
  Tensor forward(const Tensor& x) const { return functional::conv2d(x, weight, bias, form()); }
};
KERNBENCH_MODULE(Conv2d);

class BatchNormOptions {
 public:
  explicit BatchNormOptions(std::int64_t num_features) : num_features_(num_features) {}
  std::int64_t num_features() const { return num_features_; }
  KERNBENCH_OPTION(double, eps, 1e-5);
  KERNBENCH_OPTION(double, momentum, 0.1);
  KERNBENCH_OPTION(bool, affine, true);
  KERNBENCH_OPTION(bool, track_running_stats, true);

 private:
  std::int64_t num_features_;
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;

// functional::batch_norm() of the batch in training, and of the running statistics else; without
// these of the batch in both.  Its buffers are running_mean, running_var and num_batches_tracked.
struct BatchNormImpl : Layer<BatchNormImpl> {
  BatchNormImpl(const RuntimeContext& torch, const BatchNormOptions& of,
                const TensorOptions& tensors = {});
  BatchNormImpl(const RuntimeContext& torch, std::int64_t num_features,
                const TensorOptions& tensors = {})
      : BatchNormImpl(torch, BatchNormOptions(num_features), tensors) {}
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  BatchNormOptions options;
  Tensor weight;
  Tensor bias;
  Tensor running_mean;
  Tensor running_var;
  Tensor num_batches_tracked;
  // In training returns what forward() returns; undefined to let it.  SyncBatchNorm's is set.
  std::function<Tensor(const BatchNormImpl& of, const Tensor& x)> in_training;

 private:
  void rebind(Copies& copies) override {
    copies.rebind(weight, bias, running_mean, running_var, num_batches_tracked);
  }
};
KERNBENCH_MODULE(BatchNorm);
// BatchNorm1d takes [n, c] and [n, c, l], BatchNorm2d takes images.
struct BatchNorm1dImpl : Layer<BatchNorm1dImpl, BatchNormImpl> {
  using Layer::Layer;
};
KERNBENCH_MODULE(BatchNorm1d);
struct BatchNorm2dImpl : Layer<BatchNorm2dImpl, BatchNormImpl> {
  using Layer::Layer;
};
KERNBENCH_MODULE(BatchNorm2d);

class GroupNormOptions {
 public:
  GroupNormOptions(std::int64_t num_groups, std::int64_t num_channels)
      : num_groups_(num_groups), num_channels_(num_channels) {}
  std::int64_t num_groups() const { return num_groups_; }
  std::int64_t num_channels() const { return num_channels_; }
  KERNBENCH_OPTION(double, eps, 1e-5);
  KERNBENCH_OPTION(bool, affine, true);

 private:
  std::int64_t num_groups_;
  std::int64_t num_channels_;
};
struct GroupNormImpl : Layer<GroupNormImpl> {
  GroupNormImpl(const RuntimeContext& torch, const GroupNormOptions& of,
                const TensorOptions& tensors = {});
  GroupNormImpl(const RuntimeContext& torch, std::int64_t num_groups, std::int64_t num_channels,
                const TensorOptions& tensors = {})
      : GroupNormImpl(torch, GroupNormOptions(num_groups, num_channels), tensors) {}
  Tensor forward(const Tensor& x) const;
  std::string extra_repr() const override;

  GroupNormOptions options;
  Tensor weight;
  Tensor bias;

 private:
  void rebind(Copies& copies) override { copies.rebind(weight, bias); }
};
KERNBENCH_MODULE(GroupNorm);

// Functions of windows as modules: `MaxPool2d(3, {.stride = 2, .padding = 1})`.
using functional::PoolOptions;
// What extra_repr() of a pooling module says, without dilation and ceil_mode, which AvgPool2d
// lacks.
std::string describe_pool(const Pair& kernel, const PoolOptions& options);
template <Tensor (*function)(const Tensor&, const Pair&, const PoolOptions&), Literal class_name>
struct PoolImpl : Layer<PoolImpl<function, class_name>> {
  explicit PoolImpl(const Pair& kernel, const PoolOptions& of = {})
      : kernel_size(kernel), options(of) {}
  Tensor forward(const Tensor& x) const { return function(x, kernel_size, options); }
  std::string name() const override { return class_name.text; }
  std::string extra_repr() const override {
    const bool is_maximum = function == functional::max_pool2d;
    return describe_pool(kernel_size, options) +
           (is_maximum ? ", dilation=1, ceil_mode=False" : "");
  }

  Pair kernel_size;
  PoolOptions options;
};
template <Tensor (*function)(const Tensor&, const Pair&, const PoolOptions&), Literal class_name>
struct Pool : ModuleHolder<PoolImpl<function, class_name>> {
  using Impl = PoolImpl<function, class_name>;
  using ModuleHolder<Impl>::ModuleHolder;
  Pool(const Pair& kernel, const PoolOptions& options)
      : Pool(std::make_shared<Impl>(kernel, options)) {}
};
using MaxPool2d = Pool<functional::max_pool2d, "MaxPool2d">;
using AvgPool2d = Pool<functional::avg_pool2d, "AvgPool2d">;

struct AdaptiveAvgPool2dImpl : Layer<AdaptiveAvgPool2dImpl> {
  explicit AdaptiveAvgPool2dImpl(const Pair& size) : output_size(size) {}
  Tensor forward(const Tensor& x) const { return functional::adaptive_avg_pool2d(x, output_size); }
  std::string extra_repr() const override;

  Pair output_size;
};
KERNBENCH_MODULE(AdaptiveAvgPool2d);

}  // namespace kernbench::nn
