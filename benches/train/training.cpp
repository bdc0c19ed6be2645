#include "benches/train/training.h"

#include <fmt/format.h>

#include <vector>

#include "benches/train/text.h"
#include "runtime/functional/cross_entropy.h"
#include "runtime/optim/clip_grad.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"

namespace kernbench::benches::train {

namespace {

constexpr std::int64_t kStride = 97;  // bytes between the beginnings of samples

void check(const TrainingOptions& options) {
  const LanguageModelSize& size = options.size;
  if (size.hidden % size.heads != 0) {
    throw UsageError("KB-U012", fmt::format("train: hidden {} is no multiple of heads {}",
                                            size.hidden, size.heads));
  }
  if (options.model == ModelKind::llama && size.hidden / size.heads % 2 != 0) {
    throw UsageError("KB-U012", fmt::format("train: a head of llama has an even size, not {}",
                                            size.hidden / size.heads));
  }
}

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

std::string_view name_of(ModelKind kind) {
  return kind == ModelKind::gpt ? "gpt" : "llama";
}

std::string_view name_of(OptimizerKind kind) {
  return kind == OptimizerKind::adamw ? "adamw" : kind == OptimizerKind::adam ? "adam" : "sgd";
}

Training::Training(RuntimeContext& torch, const TrainingOptions& options)
    : torch_(torch), options_(options) {
  check(options);
  const TensorOptions tensors{.dtype = options.dtype, .dp = DPPolicy::on_one_pe()};
  model_ = options.model == ModelKind::gpt ? make_gpt(torch, options.size, tensors)
                                           : make_llama(torch, options.size, tensors);
  fill_weights(model_);
  optimizer_ = make_optimizer(model_.module->parameters(), options);
}

Training::Batch Training::next_batch() {
  const std::string_view text = training_texts().front().text;
  const LanguageModelSize& size = options_.size;
  const auto most = static_cast<std::int64_t>(text.size()) - size.seq - 1;
  std::vector<float> tokens;
  std::vector<float> targets;
  for (std::int64_t row = 0; row < size.batch; ++row) {
    const std::int64_t start = (steps_ * size.batch + row) * kStride % most;
    for (std::int64_t i = start; i < start + size.seq; ++i) {
      tokens.push_back(static_cast<float>(text[static_cast<std::size_t>(i)]));
      targets.push_back(static_cast<float>(text[static_cast<std::size_t>(i + 1)]));
    }
  }
  const Shape shape{size.tokens()};
  Batch batch{torch_.empty(shape, {.dp = DPPolicy::on_one_pe(), .name = "tokens"}),
              torch_.empty(shape, {.dp = DPPolicy::on_one_pe(), .name = "targets"})};
  batch.tokens.copy_(RuntimeContext::tensor(tokens, shape));
  batch.targets.copy_(RuntimeContext::tensor(targets, shape));
  return batch;
}

TrainingStep Training::step() {
  const Time began = torch_.engine().now();
  const Time computed = torch_.engine().activity(0).computing;
  const Batch batch = next_batch();
  optimizer_->zero_grad();
  const Tensor loss = nn::functional::cross_entropy(model_.forward(batch.tokens), batch.targets);
  loss.backward();
  TrainingStep step;
  step.norm = nn::utils::clip_grad_norm_(model_.module->parameters(), options_.clip);
  optimizer_->step();
  torch_.ahbm.synchronize();
  ++steps_;
  step.time = torch_.engine().now() - began;
  step.computing = torch_.engine().activity(0).computing - computed;
  if (torch_.options().data) step.loss = loss.item<double>();
  return step;
}

}  // namespace kernbench::benches::train
