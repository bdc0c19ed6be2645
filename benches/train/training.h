// Training a language model, step by step.

#pragma once

#include <memory>
#include <string_view>

#include "benches/train/language_model.h"
#include "runtime/optim/optimizer.h"
#include "sim_engine/base/units.h"

namespace kernbench::benches::train {

enum class ModelKind { gpt, llama };
enum class OptimizerKind { adamw, adam, sgd };
std::string_view name_of(ModelKind kind);
std::string_view name_of(OptimizerKind kind);

struct TrainingOptions {
  ModelKind model = ModelKind::gpt;
  LanguageModelSize size = {};
  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 1e-2;
  double clip = 1;  // largest norm of the gradients
  DType dtype = DType::f32;
};

// What one step did.
struct TrainingStep {
  double loss = 0;  // 0 in a context without data, as is `norm`
  double norm = 0;  // of the gradients, before they are clipped
  Time time{0};     // simulated
  Time computing{0};
};

class Training {
 public:
  // Throws UsageError KB-U012 for heads that do not divide the hidden size, or an odd head for
  // llama.
  Training(RuntimeContext& torch, const TrainingOptions& options);

  TrainingStep step();
  const nn::Module& model() const { return *model_.module; }

 private:
  struct Batch {
    Tensor tokens;
    Tensor targets;
  };
  Batch next_batch();

  RuntimeContext& torch_;
  const TrainingOptions options_;
  LanguageModel model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::int64_t steps_ = 0;
};

}  // namespace kernbench::benches::train
