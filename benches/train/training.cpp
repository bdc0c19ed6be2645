#include "benches/train/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "benches/train/text.h"
#include "runtime/functional/compile.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "runtime/optim/optimizer.h"
#include "runtime/torch/profiler.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "tp/layers.h"

namespace kernbench::benches::train {

namespace {

constexpr double kLossScale = 4096;   // at first, of f16
constexpr std::int64_t kStride = 97;  // bytes between the beginnings of samples

std::unique_ptr<optim::Optimizer> make_optimizer(std::vector<Tensor> parameters,
                                                 const TrainingOptions& options) {
  switch (options.optimizer) {
    case OptimizerKind::adamw:
      return std::make_unique<optim::AdamW>(std::move(parameters), options.lr);
    case OptimizerKind::adam:
      return std::make_unique<optim::Adam>(std::move(parameters), options.lr);
    case OptimizerKind::sgd:
      break;
  }
  return std::make_unique<optim::SGD>(std::move(parameters), options.lr);
}

}  // namespace

void check_size(std::string_view bench, ModelKind model, const LanguageModelSize& size) {
  if (size.hidden % size.heads != 0) {
    throw UsageError("KB-U012", "{}: hidden {} is no multiple of heads {}", bench, size.hidden,
                     size.heads);
  }
  if (size.heads % size.key_heads() != 0) {
    throw UsageError("KB-U012", "{}: heads {} is no multiple of kv_heads {}", bench, size.heads,
                     size.key_heads());
  }
  if (model == ModelKind::llama && size.hidden / size.heads % 2 != 0) {
    throw UsageError("KB-U012", "{}: a head of llama has an even size, not {}", bench,
                     size.hidden / size.heads);
  }
}

double count_linear_weights(nn::Module& module) {
  double weights = 0;
  module.apply([&](nn::Module& part) {
    const auto* const linear = dynamic_cast<const nn::LinearImpl*>(&part);
    if (linear != nullptr) weights += static_cast<double>(linear->weight.numel());
    const auto* const column = dynamic_cast<const tp::ColumnParallelLinear*>(&part);
    if (column != nullptr) weights += static_cast<double>(column->weight.numel());
    const auto* const row = dynamic_cast<const tp::RowParallelLinear*>(&part);
    if (row != nullptr) weights += static_cast<double>(row->weight.numel());
  });
  return weights;
}

double count_flops(nn::Module& module, const LanguageModelSize& size, int ranks) {
  constexpr double kOfWeight = 6;  // a product and a sum, forward and twice backward
  constexpr double kOfScore = 12;  // two products of each, in the same three passes
  const auto tokens = static_cast<double>(size.tokens());
  const double scores =
      tokens * static_cast<double>(size.seq) / 2;  // a head's, if it had all features
  return kOfWeight * count_linear_weights(module) * tokens +
         kOfScore * scores * static_cast<double>(size.hidden * size.layers) / ranks;
}

std::string_view name_of(ModelKind kind) {
  return kind == ModelKind::gpt ? "gpt" : "llama";
}

std::string_view name_of(OptimizerKind kind) {
  return kind == OptimizerKind::adamw ? "adamw" : kind == OptimizerKind::adam ? "adam" : "sgd";
}

Training::Training(RuntimeContext& torch, const TrainingOptions& options)
    : torch_(torch), options_(options) {
  const TensorOptions tensors{.dtype = options.dtype, .dp = options.on.weights()};
  model_ = options.model == ModelKind::gpt ? make_gpt(torch, options.size, tensors)
                                           : make_llama(torch, options.size, tensors);
  if (torch.options().data) fill_weights(model_);
  choose_recomputed();
  if (options.compile) model_.forward = kernbench::compile(model_.forward);
  optimizer_ = make_optimizer(model_.module->parameters(), options);
  if (options.dtype == DType::f32) return;
  optim::Float16OptimizerOptions mixed{.clip_grad = options.clip};
  if (options.dtype == DType::f16) {
    mixed.grad_scaler = optim::DynamicGradScalerOptions().initial_scale(kLossScale);
  }
  auto masters = std::make_unique<optim::Float16OptimizerWithFloat16Params>(
      torch, std::move(optimizer_), std::move(mixed));
  masters_ = masters.get();
  optimizer_ = std::move(masters);
}

nn::utils::LayerActivations Training::measure_layer() const {
  const Tensor x = torch_.empty({options_.size.tokens(), options_.size.hidden},
                                {.dtype = options_.dtype, .dp = options_.on.tokens()});
  const auto measured = nn::utils::measure_activations(model_.layer, x);
  torch_.ahbm.synchronize();  // so that a step that begins now is not behind it
  return measured;
}

void Training::choose_recomputed() {
  const Recomputation& wanted = options_.recomputation;
  const std::int64_t layers = options_.size.layers;
  if (wanted.kind != Recomputation::Kind::budget) {
    *model_.recomputed = find_recomputed(wanted, layers);
    return;
  }
  std::vector<bool>& recomputed = model_.recomputed->by_layer;
  recomputed = nn::utils::choose_kept_layers(layers, measure_layer(), wanted.budget);
  recomputed.flip();
}

Training::Batch Training::next_batch() {
  const std::string_view text = training_texts().front().text;
  const LanguageModelSize& size = options_.size;
  const auto length = static_cast<std::int64_t>(text.size());
  // A text that is shorter than a sample begins anew at its end, so a sample may begin anywhere.
  const std::int64_t starts = length > size.seq + 1 ? length - size.seq - 1 : length;
  const auto byte = [&](std::int64_t i) {
    return static_cast<float>(text[static_cast<std::size_t>(i % length)]);
  };
  std::vector<float> tokens;
  std::vector<float> targets;
  for (std::int64_t row = 0; row < size.batch; ++row) {
    const std::int64_t start = (steps_ * size.batch + row) * kStride % starts;
    for (std::int64_t i = start; i < start + size.seq; ++i) {
      tokens.push_back(byte(i));
      targets.push_back(byte(i + 1));
    }
  }
  const Shape shape{size.tokens()};
  Batch batch{torch_.empty(shape, {.dp = options_.on.tokens(), .name = "tokens"}),
              torch_.empty(shape, {.dp = options_.on.tokens(), .name = "targets"})};
  batch.tokens.copy_(RuntimeContext::tensor(tokens, shape));
  batch.targets.copy_(RuntimeContext::tensor(targets, shape));
  return batch;
}

// Each PE has a copy of the parameters that are no matrices, and their gradients by its own
// samples: the collective adds these up inside the device.
void Training::sum_gradients() const {
  for (const Tensor& parameter : model_.module->parameters()) {
    if (is_partial(parameter.grad().dp())) torch_.distributed.all_reduce(parameter.grad());
  }
}

TrainingStep Training::step() {
  const Time began = torch_.engine().now();
  const Time computed = torch_.engine().activity(0).computing;
  const Batch batch = next_batch();
  optimizer_->zero_grad();
  const Tensor loss = nn::functional::cross_entropy(model_.forward(batch.tokens), batch.targets);
  (masters_ == nullptr ? loss : masters_->scale_loss(loss)).backward();
  sum_gradients();
  TrainingStep step;
  if (masters_ == nullptr) {
    step.norm = nn::utils::clip_grad_norm_(model_.module->parameters(), options_.clip);
  }
  optimizer_->step();
  if (masters_ != nullptr) step.norm = masters_->last_step().grad_norm;
  torch_.ahbm.synchronize();
  ++steps_;
  step.time = torch_.engine().now() - began;
  profiler::timed(torch_, fmt::format("step {}", steps_), began, torch_.engine().now());
  step.computing = torch_.engine().activity(0).computing - computed;
  if (torch_.options().data) step.loss = loss.item<double>();
  return step;
}

}  // namespace kernbench::benches::train
