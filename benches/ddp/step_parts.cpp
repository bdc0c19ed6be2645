#include "benches/ddp/step_parts.h"

#include "benches/train/parallel_language_model.h"
#include "benches/train/recomputation.h"
#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/autograd/split_backward.h"
#include "runtime/functional/functional.h"
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

void run_stage_pass(RuntimeContext& torch, const StepInput& input,
                    const std::function<Tensor(const Tensor& x)>& forward, const Tensor& tokens,
                    const Tensor& between, PassInstants& instants) {
  const auto timed = [&](Span& span, const auto& work) {
    const Time before = torch.engine().now();
    span.begin = nn::parallel::device_instant(torch, tokens.device());
    auto made = work();
    span.end = nn::parallel::device_instant(torch, tokens.device());
    span.launching = torch.engine().now() - before;
    return made;
  };
  const bool has_embedding = input.parallel.has_embedding;
  const bool has_head = input.parallel.has_head;
  const Tensor x = has_embedding ? tokens : between.detach().requires_grad_();
  const Tensor result = timed(instants.forward, [&] {
    const Tensor y = forward(x);
    return has_head ? loss_of(torch, input, y, tokens) : y;
  });
  const Tensor gradient = has_head ? Tensor() : between;
  if (!input.splits_backward) {
    timed(instants.backward, [&] {
      result.backward(gradient);
      return true;
    });
    return;
  }
  auto halves = timed(instants.input, [&] {
    return autograd::SplitBackward(result, gradient,
                                   has_embedding ? std::vector<Tensor>() : std::vector<Tensor>{x});
  });
  timed(instants.weight, [&] {
    halves.run_weights();
    return true;
  });
}

Bytes measure_kept(RuntimeContext& torch, const StepInput& input, const ModelHolder& model) {
  const Tensor tokens = make_tokens(torch, input);
  const auto forward = [&](const Tensor& x) {
    const Tensor y = model(x);
    return input.parallel.has_head ? loss_of(torch, input, y, tokens) : y;
  };
  const Tensor x = input.parallel.has_embedding ? tokens : make_between(torch, input);
  const Bytes kept = nn::utils::measure_activations(forward, x).all;
  torch.ahbm.synchronize();
  torch.ahbm.reset_peak_memory_stats();
  return kept;
}

Bytes measure_pass(const RuntimeContext& torch, Bytes held, Bytes gradients) {
  return torch.ahbm.max_memory_allocated() - held - gradients;
}

void set_times(StageStep& stage, const std::vector<PassInstants>& passes,
               const nn::parallel::DeviceInstant& end) {
  const auto times_of = [](const PassInstants& pass) {
    return pipeline::StageTimes{.forward = pass.forward.duration(),
                                .backward = pass.backward.duration(),
                                .input = pass.input.duration(),
                                .weight = pass.weight.duration()};
  };
  const PassInstants& later = passes[1];
  const PassInstants& last = passes.back();
  const Span& end_of_last = last.weight.end == nullptr ? last.backward : last.weight;
  stage.times = {.first = times_of(passes[0]),
                 .later = times_of(later),
                 .last = times_of(last),
                 .host = {.forward = to_ns(later.forward.launching),
                          .backward = to_ns(later.backward.launching),
                          .input = to_ns(later.input.launching),
                          .weight = to_ns(later.weight.launching)}};
  stage.tail = end.at - end_of_last.end->at;
}

void scale_gradients(RuntimeContext& torch, const std::vector<Tensor>& parameters, int by) {
  const NoGradGuard no_grad(torch);
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) parameter.grad().div_(by);
  }
}

}  // namespace kernbench::benches::ddp
