#include "benches/ddp/step_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "benches/train/parallel_language_model.h"
#include "benches/train/recomputation.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/autograd/split_backward.h"
#include "runtime/functional/functional.h"
#include "runtime/simulation/simulation.h"
#include "runtime/stream/rank_streams.h"
#include "runtime/stream/stream_races.h"
#include "runtime/torch/internals.h"
#include "runtime/torch/run_ranks.h"
#include "tp/parallel_state.h"

namespace kernbench::benches::ddp {

// Ranks are nearly alike: DDP broadcasts, and in ZeRO-1 and FSDP2 each rank has another part of a
// tensor, on other PEs.  In a mesh those of the same place in their tensor parallel groups are, and
// of a pipeline's stage those of the same place in the ranks of a stage, whose ends have no link to
// each other.  The stages of a pipeline are not.
void run_on_ranks(PointContext& point, const StepInput& input, const Topology& topology,
                  const std::function<void(RuntimeContext& torch, int rank)>& work) {
  const int period = input.pp == 1 ? input.tp : input.is_stage ? input.world / input.pp : 0;
  const auto torch = point.make_context(
      topology, {.ccl = point.bench().ccl(), .data = false, .fold = period, .folds_nearly = true});
  if (!input.finds_races) simulation_of(*torch).attachments().get<runtime::StreamRaces>().ignore();
  torch->distributed.init_process_group("ahbm");
  if (input.is_mesh) {
    tp::initialize_model_parallel(
        *torch, {.tensor_model_parallel_size = input.tp, .pipeline_model_parallel_size = input.pp});
  }
  run_on_devices(*torch, topology.system.sip_count, [&](int rank) { work(*torch, rank); });
  torch->distributed.destroy_process_group();
}

train::LanguageModel make_model(RuntimeContext& torch, const StepInput& input) {
  const TensorOptions tensors{.dtype = input.dtype, .dp = input.on.weights()};
  const train::LanguageModelSize size = input.microbatch();
  const auto make = input.model == train::ModelKind::gpt ? train::make_gpt : train::make_llama;
  train::LanguageModel model = input.is_mesh
                                   ? train::make_parallel(torch, size, tensors, input.parallel)
                                   : make(torch, size, tensors);
  *model.recomputed = train::find_recomputed(input.recomputation, size.layers);
  return model;
}

Tensor loss_of(RuntimeContext& torch, const StepInput& input, const Tensor& logits,
               const Tensor& targets) {
  return input.is_mesh ? train::parallel_loss(torch, logits, targets)
                       : nn::functional::cross_entropy(logits, targets);
}

Tensor part_of_loss(const StepInput& input, const Tensor& loss) {
  return input.microbatches == 1 ? loss : loss / input.microbatches;
}

Tensor stage_loss_of(RuntimeContext& torch, const StepInput& input, const Tensor& logits,
                     const Tensor& targets) {
  const Tensor loss = loss_of(torch, input, logits, targets);
  return input.scheme == Scheme::zero1 ? part_of_loss(input, loss) : loss;
}

tp::DistributedDataParallel<ModelHolder> make_zero1(RuntimeContext& torch, const StepInput& input,
                                                    const ModelHolder& holder) {
  const double elements =
      input.bucket_cap_mb * 1024 * 1024 / static_cast<double>(size_of(input.dtype));
  return {torch,
          {.overlap_grad_reduce = true,
           .use_distributed_optimizer = true,
           .bucket_size = std::max<std::int64_t>(static_cast<std::int64_t>(elements), 1)},
          holder};
}

std::unique_ptr<optim::Optimizer> make_adamw(std::vector<Tensor> shards) {
  return std::make_unique<optim::AdamW>(std::move(shards));
}

StepInput stage_of(const StepInput& input, int stage) {
  StepInput part = input;
  part.is_stage = true;
  part.size.layers /= input.stages();
  part.parallel.has_embedding = stage == 0;
  part.parallel.has_head = stage == input.stages() - 1;
  return part;
}

Tensor make_tokens(const RuntimeContext& torch, const StepInput& input) {
  return torch.zeros({input.microbatch().tokens()}, {.dp = input.on.tokens()});
}

namespace {

std::int64_t rows_between(const StepInput& input) {
  return input.microbatch().tokens() / (input.parallel.sequence_parallel ? input.tp : 1);
}

}  // namespace

Tensor make_between(const RuntimeContext& torch, const StepInput& input) {
  return torch.zeros({rows_between(input), input.size.hidden},
                     {.dtype = input.dtype, .dp = input.on.tokens()});
}

Bytes bytes_between(const StepInput& input) {
  return rows_between(input) * input.size.hidden * size_of(input.dtype);
}

void run_span(RuntimeContext& torch, Span& span, Time hold, const std::function<void()>& work) {
  torch.ahbm.synchronize();
  runtime::Simulation& simulation = simulation_of(torch);
  const int device = torch.ahbm.current_device();
  if (hold > Time{0} && simulation.queues_launches()) {
    runtime::current_stream(simulation, device).enqueue("a stage's launches", [&simulation, hold] {
      simulation.sleep(hold, [] { return std::string("a stage's launches"); });
    });
  }
  span.launch = simulation.now();
  span.begin = nn::parallel::device_instant(torch, device);
  work();
  span.end = nn::parallel::device_instant(torch, device);
  span.launched = simulation.now();
}

void run_stage_pass(RuntimeContext& torch, const StepInput& input,
                    const std::function<Tensor(const Tensor& x)>& forward, const Tensor& tokens,
                    const Tensor& between, const PassInstants& before, PassInstants& instants) {
  const auto timed = [&](Span PassInstants::*part, const std::function<void()>& work) {
    run_span(torch, instants.*part, (before.*part).duration(), work);
  };
  const bool has_embedding = input.parallel.has_embedding;
  const bool has_head = input.parallel.has_head;
  const Tensor x = has_embedding ? tokens : between.detach().requires_grad_();
  Tensor result;
  timed(&PassInstants::forward, [&] {
    result = forward(x);
    if (has_head) result = stage_loss_of(torch, input, result, tokens);
  });
  const Tensor gradient = has_head ? Tensor() : between;
  if (!input.splits_backward) {
    return timed(&PassInstants::backward, [&] { result.backward(gradient); });
  }
  std::optional<autograd::SplitBackward> halves;
  timed(&PassInstants::input, [&] {
    halves.emplace(result, gradient,
                   has_embedding ? std::vector<Tensor>() : std::vector<Tensor>{x});
  });
  timed(&PassInstants::weight, [&] { halves->run_weights(); });
}

Bytes measure_kept(RuntimeContext& torch, const StepInput& input, const ModelHolder& model) {
  const Tensor tokens = make_tokens(torch, input);
  const auto forward = [&](const Tensor& x) {
    const Tensor y = model(x);
    return input.parallel.has_head ? stage_loss_of(torch, input, y, tokens) : y;
  };
  const Tensor x = input.parallel.has_embedding ? tokens : make_between(torch, input);
  const Bytes kept = nn::utils::measure_activations(forward, x).all;
  torch.ahbm.synchronize();
  torch.ahbm.reset_peak_memory_stats();
  return kept + (input.parallel.has_head ? 0 : bytes_between(input));
}

Bytes measure_pass(const RuntimeContext& torch, Bytes held, Bytes gradients) {
  return torch.ahbm.max_memory_allocated() - held - gradients;
}

pipeline::CostsOfStage costs_of(const StageSpans& idle, const StageSpans& queued) {
  const auto cost_of = [](const Span& alone, const Span& behind) -> pipeline::Cost {
    if (alone.begin == nullptr) return {};
    return {.launching = alone.launched - alone.launch,
            .idle = alone.duration(),
            .queued = behind.end->at - behind.begin->at};
  };
  const auto costs_of_pass = [&](std::size_t i) -> pipeline::CostsOfPass {
    const PassInstants& alone = idle.passes[i];
    const PassInstants& behind = queued.passes[i];
    const pipeline::Cost input = cost_of(alone.input, behind.input);
    const pipeline::Cost weight = cost_of(alone.weight, behind.weight);
    // Schedules of halves may have whole ones too.
    const bool has_halves = alone.input.begin != nullptr;
    return {.forward = cost_of(alone.forward, behind.forward),
            .backward = has_halves ? input.then(weight) : cost_of(alone.backward, behind.backward),
            .input = input,
            .weight = weight};
  };
  return {.first = costs_of_pass(0),
          .later = costs_of_pass(1),
          .last = costs_of_pass(idle.passes.size() - 1),
          .reduction = idle.reduction,
          .gradients = cost_of(idle.gradients, queued.gradients),
          .optimizer = cost_of(idle.optimizer, queued.optimizer)};
}

void scale_gradients(RuntimeContext& torch, const std::vector<Tensor>& parameters, int by) {
  const NoGradGuard no_grad(torch);
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().div_(by);
  }
}

}  // namespace kernbench::benches::ddp
