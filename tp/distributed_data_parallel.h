// megatron.core.distributed.DistributedDataParallel and the optimizer that goes with it (ADR-0226).
//
//   tp::DistributedDataParallel model(torch, {.use_distributed_optimizer = true}, net);
//   tp::MegatronOptimizer optimizer(torch, model->buckets(), [](std::vector<kb::Tensor> shards) {
//     return std::make_unique<kb::optim::AdamW>(std::move(shards), 1e-3);
//   });
//   model->zero_grad_buffer();
//   loss(model(x), y).backward();
//   tp::finalize_model_grads(model);
//   optimizer.step();

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/nn/module.h"
#include "runtime/nn/state.h"
#include "runtime/optim/optimizer.h"
#include "runtime/torch/runtime_context.h"
#include "tp/parameter.h"

namespace kernbench::tp {

// megatron.core.distributed.DistributedDataParallelConfig.
struct DistributedDataParallelConfig {
  bool grad_reduce_in_fp32 = false;  // gradients are kept, added up and sent as f32
  // A bucket is reduced as soon as its gradients are there, beside the backward pass; else in
  // finish_grad_sync().
  bool overlap_grad_reduce = false;
  // Ranks keep an optimizer's state for a part of each bucket alone (ZeRO-1): gradients are
  // reduce_scattered, and parameters all_gathered.
  bool use_distributed_optimizer = false;
  // With the two before: step() leaves parameters as they were, and a bucket is all_gathered in the
  // next forward pass, while modules before those that have it compute.
  bool overlap_param_gather = false;
  bool average_in_collective = false;  // ReduceOp::avg, instead of a product with 1 / dp before
  // Elements at which a bucket is closed; without a value max(40,000,000, 1,000,000 dp), and one
  // bucket if nothing overlaps.
  std::optional<std::int64_t> bucket_size = std::nullopt;
};

class ParamAndGradBucket;  // tp/param_and_grad_buffer.h

// The buckets of a model, and the hooks that fill them.
class GradBuffers {
 public:
  GradBuffers(RuntimeContext& torch, const DistributedDataParallelConfig& config,
              nn::Module& module);

  // Before a forward pass: gathers parameters of modules that no hook has announced so far, such as
  // those that are not called by a handle.
  void begin_forward();
  // Waits for all reductions, then sums the gradients of sequence parallel layers over the tensor
  // parallel ranks, by one all_reduce.
  void finalize() const;
  // Call each bucket's function of that name.
  void zero_grad_data() const;
  void start_grad_sync() const;
  void finish_grad_sync() const;
  void finish_param_sync() const;

  std::vector<std::shared_ptr<ParamAndGradBucket>> buckets;
  const DistributedDataParallelConfig config;
  bool is_last_microbatch = true;

 private:
  using Buckets = std::vector<std::size_t>;  // descending: the one that forward needs first first

  void arrived(std::size_t bucket, std::size_t param);
  Buckets find_buckets(const nn::Module& module) const;
  void announce_forward_pass(nn::Module& module);
  void needs(const Buckets& these);

  RuntimeContext& torch_;
  std::vector<Buckets> of_modules_that_were_not_called_;
  std::shared_ptr<GradBuffers*> self_;  // what hooks refer to
};

// While it lives, gradients are added up and nothing is sent.
class [[nodiscard]] NoGradSync {
 public:
  explicit NoGradSync(GradBuffers& buffers)
      : buffers_(buffers), was_(std::exchange(buffers.is_last_microbatch, false)) {}
  ~NoGradSync() { buffers_.is_last_microbatch = was_; }
  NoGradSync(const NoGradSync&) = delete;
  NoGradSync& operator=(const NoGradSync&) = delete;

 private:
  GradBuffers& buffers_;
  const bool was_;
};

template <class Holder>
class DistributedDataParallelImpl : public nn::Module {
 public:
  DistributedDataParallelImpl(RuntimeContext& torch, const DistributedDataParallelConfig& config,
                              Holder contained)
      : module(register_module("module", std::move(contained))),
        buffers_(torch, config, *module.ptr()) {}

  template <class... Arguments>
  auto forward(Arguments&&... arguments) {
    buffers_.begin_forward();
    return module(std::forward<Arguments>(arguments)...);
  }

  NoGradSync no_sync() { return NoGradSync(buffers_); }
  // A pipeline calls these around a step's micro-batches: the last backward alone reduces buckets.
  // Its schedule does not divide main_grad by their number, so the loss must, as Megatron's does.
  void prepare_for_forward() { buffers_.is_last_microbatch = false; }
  void prepare_for_backward(const std::vector<Tensor>&) { buffers_.is_last_microbatch = true; }
  void forget_backward() { buffers_.is_last_microbatch = true; }
  const std::vector<std::shared_ptr<ParamAndGradBucket>>& buckets() const {
    return buffers_.buckets;
  }
  // Call this before each batch.
  void zero_grad_buffer() { buffers_.zero_grad_data(); }
  void start_grad_sync() { buffers_.start_grad_sync(); }
  void finish_grad_sync() { buffers_.finish_grad_sync(); }
  // With overlap_param_gather the last step()'s parameters are there after this, or after the next
  // forward pass.
  void finish_param_sync() { buffers_.finish_param_sync(); }
  void finalize_grads() const { buffers_.finalize(); }

  Holder module;

 private:
  GradBuffers buffers_;
};

// A handle.  backward() adds gradients to main_grad in the buckets' buffers, and leaves no grad().
// Ranks must begin with the same parameters.  Throws CollectiveError KB-T006 for a config that does
// not go together, KB-A015 where modules differ between data parallel ranks.
template <class Holder>
class DistributedDataParallel : public nn::ModuleHolder<DistributedDataParallelImpl<Holder>> {
 public:
  DistributedDataParallel(RuntimeContext& torch, const DistributedDataParallelConfig& config,
                          Holder module)
      : nn::ModuleHolder<DistributedDataParallelImpl<Holder>>(
            std::make_shared<DistributedDataParallelImpl<Holder>>(torch, config,
                                                                  std::move(module))) {}
  template <std::same_as<DistributedDataParallelConfig> Config>
  requires(nn::ContextDemand<Config>::kIsMet) DistributedDataParallel(const Config&, const Holder&)
  = delete;
};

// When a batch's last backward() has returned: waits for all reductions, then sums the gradients of
// sequence parallel layers (Parameter::sequence_parallel) over the tensor parallel ranks, as
// Megatron does without pipeline stages.  Throws DeviceError KB-F003 if holders have parts of one.
template <class Model>
void finalize_model_grads(const Model& model) {
  model->finalize_grads();
}

// Keeps f32 masters of this rank's elements of each bucket, and updates those: all elements, or
// with use_distributed_optimizer 1 / dp of them (ZeRO-1), after which an all_gather gives every
// rank the parameters.
class MegatronOptimizer {
 public:
  using Make = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor> shards)>;
  struct Options {
    double clip_grad = 0;  // largest norm of the gradients; 0: they are not clipped
  };
  struct Result {
    double grad_norm = 0;  // of all ranks' gradients, before they are clipped
  };

  // `make` makes the optimizer of the masters, flat tensors in f32.
  MegatronOptimizer(RuntimeContext& torch, std::vector<std::shared_ptr<ParamAndGradBucket>> buckets,
                    const Make& make, const Options& options);
  MegatronOptimizer(RuntimeContext& torch, std::vector<std::shared_ptr<ParamAndGradBucket>> buckets,
                    const Make& make)
      : MegatronOptimizer(torch, std::move(buckets), make, Options{}) {}

  // Clips, updates, and gives every rank the parameters, or with overlap_param_gather leaves that
  // to the next forward pass.  Norms are added up over the ranks that have other elements, by one
  // all_reduce of 4 bytes; what tensor parallel ranks have in common counts once.
  // Throws CollectiveError KB-T008 for gradients that finalize_model_grads() has not reduced.
  Result step();
  optim::Optimizer& inner() { return *optimizer_; }

 private:
  double compute_norm(const std::vector<Tensor>& gradients) const;

  RuntimeContext& torch_;
  const std::vector<std::shared_ptr<ParamAndGradBucket>> buckets_;
  const Options options_;
  std::vector<Tensor> masters_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

// megatron.core.optimizer.clip_grads: norms over the ranks that hold a model's parts.

// The 2-norm over all ranks of a group: the root of one all_reduce of 4 bytes.  `counted` are the
// gradients that no other rank counts; `any` one that this rank has in any case.  0 in a context
// without data.
double get_grad_norm(RuntimeContext& torch, const std::vector<Tensor>& counted, const Tensor& any,
                     const distributed::ProcessGroup& group);

// Scales the parameters' gradients so that their 2-norm over the model parallel group is at most
// max_norm, and returns what it was: for a model that torch's DistributedDataParallel wraps beside
// tensor parallel layers, or that fully_shard has cut.  A parameter that ranks have in common
// counts once (counts_in_norms()); the ranks of a group first add up the squares of their shards.
// Gradients are scaled only if the norm is larger, as in Megatron.  Throws CollectiveError KB-T006
// if no parameter of this rank has a gradient.
double clip_grad_norm(RuntimeContext& torch, const std::vector<Parameter>& parameters,
                      double max_norm);

// Whole states of modules that hold tensor parallel layers.

// Returns the parameters and buffers whole, by their names: gathered over the ranks among which
// fully_shard has cut them, then over the caller's tensor parallel ranks, by an all_gather each.
// All ranks call it.  A file of it fits any number of ranks.
nn::StateDict get_full_state_dict(RuntimeContext& torch, nn::Module& module);

// Copies such a state's values into the parameters and buffers: this rank's part of each.  Throws
// CollectiveError KB-A011 as Module::load_state_dict() does.
nn::IncompatibleKeys set_full_state_dict(RuntimeContext& torch, nn::Module& module,
                                         const nn::StateDict& state,
                                         const nn::LoadOptions& options = {});

}  // namespace kernbench::tp
