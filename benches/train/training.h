// Training a language model, step by step.

#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "benches/train/language_model.h"
#include "benches/train/recomputation.h"
#include "benches/train/used_pes.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/optim/float16_optimizer.h"
#include "runtime/optim/optimizer.h"
#include "sim_engine/base/units.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches::train {

enum class ModelKind { gpt, llama };
enum class OptimizerKind { adamw, adam, sgd };
std::string_view name_of(ModelKind kind);
std::string_view name_of(OptimizerKind kind);

// Throws UsageError KB-U012 for heads that do not divide the hidden size, kv_heads that do not
// divide the heads, or an odd head for llama.
void check_size(std::string_view bench, ModelKind model, const LanguageModelSize& size);

// The elements of all linear layers' weights.  REQUIRES: the module has its whole parameters
double count_linear_weights(nn::Module& module);

// Returns the FLOPs of a step that count for its MFU (Megatron's and PaLM's "model FLOPs"): 6 for
// each of these weights and token, and the products of causal attention, of whose scores half are
// needed.  They are those of one of `ranks` tensor parallel ranks, whose module has its part of the
// weights.
double count_flops(nn::Module& module, const LanguageModelSize& size, int ranks = 1);

struct TrainingOptions {
  ModelKind model = ModelKind::gpt;
  LanguageModelSize size = {};
  OptimizerKind optimizer = OptimizerKind::adamw;
  double lr = 1e-2;
  double clip = 1;           // largest norm of the gradients
  bool compile = false;      // kb::compile(model)
  DType dtype = DType::f32;  // others have masters in f32, and f16 a scaled loss
  UsedPes on = {};
  Recomputation recomputation = {};
};

// The results of one step.
struct TrainingStep {
  double loss = 0;  // 0 in a context without data, as is `norm`
  double norm = 0;  // of the gradients, before they are clipped
  Time time{0};     // simulated
  Time computing{0};
};

class Training {
 public:
  // Called by a rank of a world of one.  Throws CollectiveError KB-A033 for a budget into which the
  // layers do not fit.  REQUIRES: check_size() accepts the options
  Training(RuntimeContext& torch, const TrainingOptions& options);

  TrainingStep step();
  nn::Module& model() const { return *model_.module; }
  const RecomputedLayers& recomputed() const { return *model_.recomputed; }
  // Measures what the first layer keeps for its backward.
  nn::utils::LayerActivations measure_layer() const;

 private:
  struct Batch {
    Tensor tokens;
    Tensor targets;
  };
  Batch next_batch();
  void choose_recomputed();
  void sum_gradients() const;

  RuntimeContext& torch_;
  const TrainingOptions options_;
  LanguageModel model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Float16OptimizerWithFloat16Params* masters_ = nullptr;  // the optimizer, if it has some
  std::int64_t steps_ = 0;
};

}  // namespace kernbench::benches::train
