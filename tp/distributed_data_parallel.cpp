#include "tp/distributed_data_parallel.h"

#include <algorithm>
#include <iterator>
#include <source_location>

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/callbacks.h"
#include "runtime/functional/operators.h"
#include "runtime/ops/placement.h"
#include "runtime/parallel/same_modules.h"
#include "runtime/tensor/memory_space.h"
#include "tp/misuse.h"
#include "tp/parallel_state.h"
#include "tp/param_and_grad_buffer.h"
#include "tp/warnings.h"

namespace kernbench::tp {

namespace {

void check(const DistributedDataParallelConfig& config) {
  if (!config.overlap_param_gather) return;
  if (!config.use_distributed_optimizer) {
    wrong_layer("overlap_param_gather only supported with use_distributed_optimizer");
  }
  if (!config.overlap_grad_reduce) {
    wrong_layer("Must use overlap_param_gather with overlap_grad_reduce");
  }
}

}  // namespace

GradBuffers::GradBuffers(RuntimeContext& torch, const DistributedDataParallelConfig& its_config,
                         nn::Module& module)
    : config(its_config), torch_(torch), self_(std::make_shared<GradBuffers*>(this)) {
  check(config);
  nn::parallel::check_same_modules(torch, module, get_data_parallel_group(torch),
                                   std::source_location::current());
  std::vector<Parameter> trained;
  std::ranges::copy_if(parallel_parameters(module), std::back_inserter(trained),
                       &Parameter::requires_grad);
  ParamAndGradBucket::Setting setting{torch, config, get_data_parallel_group(torch)};
  const int dp = get_data_parallel_world_size(torch);
  for (std::vector<Parameter>& bucket : bucketed_params(trained, config, dp)) {
    buckets.push_back(std::make_shared<ParamAndGradBucket>(setting, std::move(bucket)));
    ++setting.index;
  }
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (std::size_t param = 0; param < buckets[i]->params().size(); ++param) {
      buckets[i]->params()[param].register_post_accumulate_grad_hook(
          [self = std::weak_ptr(self_), i, param](const Tensor&) {
            if (const auto buffers = self.lock()) (*buffers)->arrived(i, param);
          });
    }
  }
  if (!config.overlap_param_gather) return;
  module.apply([&](nn::Module& part) { announce_forward_pass(part); });
}

void GradBuffers::arrived(std::size_t bucket, std::size_t param) {
  buckets[bucket]->add_grad(param);
  if (is_last_microbatch) buckets[bucket]->register_grad_ready(param);
}

GradBuffers::Buckets GradBuffers::find_buckets(const nn::Module& module) const {
  Buckets found;
  for (std::size_t i = buckets.size(); i-- > 0;) {
    const auto& params = buckets[i]->params();
    const bool has_one = std::ranges::any_of(module.parameters(false), [&](const Tensor& param) {
      return std::ranges::find(params, param.storage(), &Parameter::storage) != params.end();
    });
    if (has_one) found.push_back(i);
  }
  return found;
}

void GradBuffers::announce_forward_pass(nn::Module& module) {
  const Buckets own = find_buckets(module);
  if (own.empty()) return;
  const std::size_t number = of_modules_that_were_not_called_.size();
  of_modules_that_were_not_called_.push_back(own);
  module.register_forward_pre_hook(
      [self = std::weak_ptr(self_), own, number](nn::Module&, const Tensor&) {
        if (const auto buffers = self.lock()) {
          (*buffers)->of_modules_that_were_not_called_[number].clear();
          (*buffers)->needs(own);
        }
        return Tensor();
      });
}

void GradBuffers::begin_forward() {
  for (const Buckets& own : of_modules_that_were_not_called_) {
    for (const std::size_t bucket : own) buckets[bucket]->finish_param_sync();
  }
}

// Buckets have parameters in reverse order, so the one that is needed next is that before.
void GradBuffers::needs(const Buckets& these) {
  for (const std::size_t bucket : these) {
    if (!buckets[bucket]->awaits_param_sync()) continue;
    buckets[bucket]->finish_param_sync();
    if (bucket == 0) continue;
    if (buckets[bucket - 1]->is_gathering_params()) warn_of_order_of_param_gather(torch_);
    buckets[bucket - 1]->start_param_sync();
  }
}

void GradBuffers::zero_grad_data() const {
  for (const auto& bucket : buckets) bucket->zero_grad_data();
}

void GradBuffers::start_grad_sync() const {
  for (const auto& bucket : buckets) bucket->start_grad_sync();
}

void GradBuffers::finish_grad_sync() const {
  for (const auto& bucket : buckets) bucket->finish_grad_sync();
}

void GradBuffers::finish_param_sync() const {
  for (const auto& bucket : buckets) bucket->finish_param_sync();
}

void GradBuffers::finalize() const {
  std::vector<Tensor> grads;
  for (const auto& bucket : buckets) {
    bucket->finish_grad_sync();
    for (std::size_t i = 0; i < bucket->params().size(); ++i) {
      if (!bucket->params()[i].sequence_parallel) continue;
      if (bucket->has_parts_on_holders()) {
        ops::refuse_placement("finalize_model_grads", bucket->params()[i],
                              "gradients of sequence parallel layers lie whole on each holder");
      }
      // Tensor parallel ranks have the same elements of a bucket that data parallel ranks share.
      const Tensor grad = bucket->main_grad_view(i);
      const Tensor own = grad.defined() ? grad : bucket->part_of_shard(bucket->grad_shard(), i);
      if (own.defined()) grads.push_back(own);
    }
  }
  const auto group = get_tensor_model_parallel_group(torch_);
  if (grads.empty() || torch_.distributed.get_world_size(group) == 1) return;
  const nn::parallel::FlatBuffer together(grads, grads.front().dtype());
  together.pack(grads);
  torch_.distributed.all_reduce(together.tensor(), {.group = group});
  together.unpack(grads);
}

MegatronOptimizer::MegatronOptimizer(RuntimeContext& torch,
                                     std::vector<std::shared_ptr<ParamAndGradBucket>> buckets,
                                     const Make& make, const Options& options)
    : torch_(torch), buckets_(std::move(buckets)), options_(options) {
  const NoGradGuard no_grad(torch);
  for (const auto& bucket : buckets_) {
    const Tensor own = bucket->param_shard();
    masters_.push_back(own.dtype() == DType::f32 ? own.clone() : own.to(DType::f32));
    masters_.back().requires_grad_();
    runtime::mark_memory(masters_.back(), MemoryKind::optimizer_state);
  }
  optimizer_ = make(masters_);
}

MegatronOptimizer::Result MegatronOptimizer::step() {
  for (const auto& bucket : buckets_) bucket->check_is_reduced();
  const NoGradGuard no_grad(torch_);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    gradients.push_back(buckets_[i]->grad_shard().to(DType::f32));
    autograd::set_grad(masters_[i], gradients.back());
  }
  Result result{compute_norm(gradients)};
  const double coefficient = options_.clip_grad / (result.grad_norm + 1e-6);
  if (options_.clip_grad > 0 && coefficient < 1) {
    for (const Tensor& gradient : gradients) gradient.mul_(coefficient);
  }
  optimizer_->step();
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    masters_[i].zero_grad();
    buckets_[i]->update_params(masters_[i]);
  }
  return result;
}

// The norm is taken over this rank's elements and those of the ranks that have others.
double MegatronOptimizer::compute_norm(const std::vector<Tensor>& gradients) const {
  std::vector<Tensor> counted;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    std::ranges::copy(buckets_[i]->grads_for_norm(gradients[i]), std::back_inserter(counted));
  }
  const bool is_shared = buckets_.front()->is_shared();
  return get_grad_norm(torch_, counted, gradients.front(),
                       is_shared ? ProcessGroup() : get_model_parallel_group(torch_));
}

}  // namespace kernbench::tp
