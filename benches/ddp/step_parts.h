// The parts that steps of meshes and of pipelines have in common.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "benches/bench/bench.h"
#include "benches/ddp/measured_step.h"
#include "benches/train/language_model.h"
#include "runtime/nn/module_holder.h"
#include "runtime/optim/optimizer.h"
#include "runtime/parallel/step_times.h"
#include "runtime/tensor/tensor.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"
#include "tp/distributed_data_parallel.h"

namespace kernbench::benches::ddp {

// A language model as DistributedDataParallel takes it.
struct ModelHolder : nn::HolderBase {
  train::LanguageModel model;

  const std::shared_ptr<nn::Module>& ptr() const { return model.module; }
  Tensor operator()(const Tensor& tokens) const { return model.forward(tokens); }
};

// Calls `work` on each rank of the mesh.
void run_on_ranks(PointContext& point, const StepInput& input, const Topology& topology,
                  const std::function<void(RuntimeContext& torch, int rank)>& work);

// These are figures of the layers in input.size.
train::LanguageModel make_model(RuntimeContext& torch, const StepInput& input);
Tensor loss_of(RuntimeContext& torch, const StepInput& input, const Tensor& logits,
               const Tensor& targets);
// A micro-batch's part of the step's loss.
Tensor part_of_loss(const StepInput& input, const Tensor& loss);
// The last stage's loss of a micro-batch: with ZeRO-1 a part of the step's, as Megatron's is, and
// else its mean, since the schedule divides gradients.
Tensor stage_loss_of(RuntimeContext& torch, const StepInput& input, const Tensor& logits,
                     const Tensor& targets);

// Makes the replicas of ZeRO-1, whose optimizer is distributed.
tp::DistributedDataParallel<ModelHolder> make_zero1(RuntimeContext& torch, const StepInput& input,
                                                    const ModelHolder& holder);
// Makes what updates a rank's parts of the parameters.
std::unique_ptr<optim::Optimizer> make_adamw(std::vector<Tensor> shards);

// A stage of the pipeline for itself.
StepInput stage_of(const StepInput& input, int stage);

Tensor make_tokens(const RuntimeContext& torch, const StepInput& input);  // of a micro-batch
// Makes what lies between two stages, of a micro-batch: [tokens, hidden].
Tensor make_between(const RuntimeContext& torch, const StepInput& input);
Bytes bytes_between(const StepInput& input);

using Instant = std::shared_ptr<const nn::parallel::DeviceInstant>;

// A part of a stage's step, which begins when the device has done all before it.
struct Span {
  Time launch{0};    // when the host begins
  Time launched{0};  // and ends
  Instant begin = nullptr;
  Instant end = nullptr;

  Time duration() const { return begin == nullptr ? Time{0} : end->at - launch; }
};

// A pass has its begin; that of a stage also has its computations, as a pipeline's schedule does.
struct PassInstants {
  Instant begin = nullptr;
  Span forward = {};
  Span backward = {};
  Span input = {};
  Span weight = {};

  // REQUIRES: a stage's pass, which the device has done
  Time end() const { return (weight.end == nullptr ? backward : weight).end->at; }
};

// Runs `work` on a device that has done all before it, and is busy for `hold` more.
void run_span(RuntimeContext& torch, Span& span, Time hold, const std::function<void()>& work);
// Runs a pass of a stage: `between` is what it takes, and the gradient of what it gives.  If
// `before` has its computations, they begin when all of their launches are there.
void run_stage_pass(RuntimeContext& torch, const StepInput& input,
                    const std::function<Tensor(const Tensor& x)>& forward, const Tensor& tokens,
                    const Tensor& between, const PassInstants& before, PassInstants& instants);
// The bytes that a stage keeps of a micro-batch until its backward: what the forward pass saves,
// and what it gives.
Bytes measure_kept(RuntimeContext& torch, const StepInput& input, const ModelHolder& model);
// The most bytes of the passes since the peak was reset, beyond what the device held before them
// and gradients.
Bytes measure_pass(const RuntimeContext& torch, Bytes held, Bytes gradients);

// A step of a stage.
struct StageSpans {
  std::vector<PassInstants> passes = {};
  Time reduction{0};    // what the gradients' collectives take beyond the last pass
  Span gradients = {};  // what is left to do with them after the last pass
  Span optimizer = {};
};
// Returns the costs of a step that was run on a device that was idle before each part, and once
// more on one that had all launches of a part when it began.
// REQUIRES: three passes or more, and the device has done both
pipeline::CostsOfStage costs_of(const StageSpans& idle, const StageSpans& queued);

// Divides gradients as a pipeline's schedule does after its last micro-batch.
void scale_gradients(RuntimeContext& torch, const std::vector<Tensor>& parameters, int by);

}  // namespace kernbench::benches::ddp
