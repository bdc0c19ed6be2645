// The models that `kernbench run --bench train` trains, of GPT-2's and Llama's blocks.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "benches/train/recomputation.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor.h"

namespace kernbench {
class RuntimeContext;
}

namespace kernbench::benches::train {

struct LanguageModelSize {
  std::int64_t layers = 2;
  std::int64_t hidden = 32;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 0;  // of key and value, each for as many of the query; 0: heads
  std::int64_t ffn = 0;       // features between the MLP's layers; 0: 4 hidden
  std::int64_t vocab = 128;
  std::int64_t seq = 16;
  std::int64_t batch = 2;

  std::int64_t tokens() const { return seq * batch; }
  std::int64_t key_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  std::int64_t kv_features() const { return hidden / heads * key_heads(); }
  std::int64_t ffn_features() const { return ffn == 0 ? 4 * hidden : ffn; }
};

// A model, and what it computes: logits [tokens, vocab] of the token that follows each of [tokens].
struct LanguageModel {
  std::shared_ptr<nn::Module> module = nullptr;
  std::function<Tensor(const Tensor& tokens)> forward = {};
  // A model on one rank has its first layer here, [tokens, hidden] to the same, which computes
  // nothing again.
  std::function<Tensor(const Tensor& x)> layer = {};
  std::shared_ptr<RecomputedLayers> recomputed = nullptr;  // by later calls of `forward`
};

// Learned positions, LayerNorm before attention and MLP, gelu, biases, a head of its own.
LanguageModel make_gpt(const RuntimeContext& torch, const LanguageModelSize& size,
                       const TensorOptions& tensors);
// The blocks of that model alone, as a stage of a pipeline has them: [tokens, hidden] to the same.
LanguageModel make_gpt_blocks(const RuntimeContext& torch, const LanguageModelSize& size,
                              const TensorOptions& tensors);
// Rotary positions, grouped-query attention, RMSNorm, SwiGLU, no biases.
LanguageModel make_llama(const RuntimeContext& torch, const LanguageModelSize& size,
                         const TensorOptions& tensors);

// Gives matrices the weights of test/golden/torch_training.py, dyadic numbers within 1/8 that any
// program can rebuild, and biases 0.
void fill_weights(const LanguageModel& model);

}  // namespace kernbench::benches::train
