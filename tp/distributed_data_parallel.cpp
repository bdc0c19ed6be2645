#include "tp/distributed_data_parallel.h"

#include <algorithm>
#include <cmath>

#include "runtime/autograd/grad_mode.h"
#include "runtime/functional/elementwise.h"
#include "runtime/functional/reductions.h"
#include "tp/parallel_state.h"

namespace kernbench::tp {

GradBuffers::GradBuffers(RuntimeContext& torch, const DistributedDataParallelConfig& its_config,
                         const std::vector<Tensor>& params)
    : config(its_config), self_(std::make_shared<GradBuffers*>(this)) {
  std::vector<Tensor> trained;
  std::ranges::copy_if(params, std::back_inserter(trained), &Tensor::requires_grad);
  const ParamAndGradBucket::Setting setting{torch, config, get_data_parallel_group(torch)};
  const int dp = get_data_parallel_world_size(torch);
  for (std::vector<Tensor>& bucket : bucketed_params(trained, config, dp)) {
    buckets.push_back(std::make_shared<ParamAndGradBucket>(setting, std::move(bucket)));
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (std::size_t param = 0; param < buckets[i]->params().size(); ++param) {
      buckets[i]->params()[param].register_post_accumulate_grad_hook(
          [self = std::weak_ptr(self_), i, param](const Tensor&) {
            if (const auto buffers = self.lock()) (*buffers)->arrived(i, param);
          });
    }
  }
}

void GradBuffers::arrived(std::size_t bucket, std::size_t param) {
  buckets[bucket]->add_grad(param);
  if (is_last_microbatch) buckets[bucket]->register_grad_ready(param);
}

MegatronOptimizer::MegatronOptimizer(RuntimeContext& torch,
                                     std::vector<std::shared_ptr<ParamAndGradBucket>> buckets,
                                     const Make& make, const Options& options)
    : torch_(torch), buckets_(std::move(buckets)), options_(options) {
  const NoGradGuard no_grad(torch);
  for (const auto& bucket : buckets_) {
    const Tensor own = bucket->pack_params().narrow(0, bucket->shard_begin(), bucket->shard_size());
    masters_.push_back(own.dtype() == DType::f32 ? own.clone() : own.to(DType::f32));
    masters_.back().requires_grad_();
  }
  optimizer_ = make(masters_);
}

MegatronOptimizer::Result MegatronOptimizer::step() {
  const NoGradGuard no_grad(torch_);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    gradients.push_back(buckets_[i]->grad_shard().to(DType::f32));
    masters_[i].mutable_grad() = gradients.back();
  }
  Result result{norm_of(gradients)};
  const double coefficient = options_.clip_grad / (result.grad_norm + 1e-6);
  if (options_.clip_grad > 0 && coefficient < 1) {
    for (const Tensor& gradient : gradients) gradient.mul_(coefficient);
  }
  optimizer_->step();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    masters_[i].zero_grad();
    buckets_[i]->gather_params(masters_[i]);
  }
  return result;
}

// The root of the sum of squares over this rank's elements and those of the ranks that have others.
double MegatronOptimizer::norm_of(const std::vector<Tensor>& gradients) const {
  Tensor total;
  for (const Tensor& gradient : gradients) {
    const Tensor squares = gradient.square().sum();
    total = total.defined() ? total + squares : squares;
  }
  if (buckets_.front()->is_shared()) {
    torch_.distributed.all_reduce(total);
  } else {
    torch_.distributed.all_reduce(total, {.group = get_model_parallel_group(torch_)});
  }
  return torch_.options().data ? std::sqrt(total.item<double>()) : 0;
}

}  // namespace kernbench::tp
