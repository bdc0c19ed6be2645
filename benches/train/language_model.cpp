#include "benches/train/language_model.h"

#include <vector>

#include "benches/train/model_parts.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/tensor/tensor_storage.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::train {

namespace {

struct GptBlockImpl : RecomputableBlock {
  GptBlockImpl(const RuntimeContext& torch, const LanguageModelSize& its_size,
               const TensorOptions& t)
      : size(its_size),
        ln1(register_module("ln1", nn::LayerNorm(torch, size.hidden, t))),
        q(register_module("q", nn::Linear(torch, size.hidden, size.hidden, t))),
        k(register_module("k", nn::Linear(torch, size.hidden, size.kv_features(), t))),
        v(register_module("v", nn::Linear(torch, size.hidden, size.kv_features(), t))),
        proj(register_module("proj", nn::Linear(torch, size.hidden, size.hidden, t))),
        ln2(register_module("ln2", nn::LayerNorm(torch, size.hidden, t))),
        fc1(register_module("fc1", nn::Linear(torch, size.hidden, size.ffn_features(), t))),
        fc2(register_module("fc2", nn::Linear(torch, size.ffn_features(), size.hidden, t))) {}

  Tensor compute(const Tensor& x) const override {
    const Tensor h = ln1(x);
    // Arguments have no order, and launches are in that of their calls.
    const Tensor queries = split_heads(q(h), size);
    const Tensor keys = split_heads(k(h), size);
    const Tensor y = x + proj(attend(queries, keys, split_heads(v(h), size), size));
    return y + fc2(nn::functional::gelu(fc1(ln2(y))));
  }

  LanguageModelSize size;
  nn::LayerNorm ln1;
  nn::Linear q, k, v, proj;
  nn::LayerNorm ln2;
  nn::Linear fc1, fc2;
};
KERNBENCH_MODULE(GptBlock);

struct GptImpl : nn::Module {
  GptImpl(const RuntimeContext& torch, const LanguageModelSize& size, const TensorOptions& t)
      : wte(register_module("wte", nn::Embedding(torch, size.vocab, size.hidden, t))),
        wpe(register_module("wpe", nn::Embedding(torch, size.seq, size.hidden, t))) {
    register_module("blocks", blocks);
    for (std::int64_t i = 0; i < size.layers; ++i)
      add_block(blocks, GptBlock(torch, size, t), recomputed);
    ln = register_module("ln", nn::LayerNorm(torch, size.hidden, t));
    head = register_module(
        "head", nn::Linear(torch, nn::LinearOptions(size.hidden, size.vocab).bias(false), t));
    positions = register_buffer("positions", torch.tensor(positions_in_samples(size),
                                                          {size.tokens()}, {.dp = rows_of(t.dp)}));
  }

  Tensor forward(const Tensor& tokens) const {
    const Tensor of_positions = wpe(positions);  // first: operands of + have no order
    return head(ln(call_blocks(blocks, wte(tokens) + of_positions)));
  }

  std::shared_ptr<RecomputedLayers> recomputed = std::make_shared<RecomputedLayers>();
  nn::Embedding wte, wpe;
  nn::ModuleList<GptBlock> blocks;
  nn::LayerNorm ln = nullptr;
  nn::Linear head = nullptr;
  Tensor positions;
};

struct GptBlocksImpl : nn::Module {
  GptBlocksImpl(const RuntimeContext& torch, const LanguageModelSize& size,
                const TensorOptions& t) {
    register_module("blocks", blocks);
    for (std::int64_t i = 0; i < size.layers; ++i)
      add_block(blocks, GptBlock(torch, size, t), recomputed);
  }

  Tensor forward(const Tensor& x) const { return call_blocks(blocks, x); }

  std::shared_ptr<RecomputedLayers> recomputed = std::make_shared<RecomputedLayers>();
  nn::ModuleList<GptBlock> blocks;
};

struct LlamaBlockImpl : RecomputableBlock {
  LlamaBlockImpl(const RuntimeContext& torch, const LanguageModelSize& its_size,
                 const nn::RotaryEmbedding& its_rotary, const TensorOptions& t)
      : size(its_size),
        rotary(its_rotary),
        norm1(register_module("norm1", nn::RMSNorm(torch, size.hidden, t, kNormEpsilon))),
        q(linear("q", torch, size.hidden, size.hidden, t)),
        k(linear("k", torch, size.hidden, size.kv_features(), t)),
        v(linear("v", torch, size.hidden, size.kv_features(), t)),
        proj(linear("proj", torch, size.hidden, size.hidden, t)),
        norm2(register_module("norm2", nn::RMSNorm(torch, size.hidden, t, kNormEpsilon))),
        gate(linear("gate", torch, size.hidden, size.ffn_features(), t)),
        up(linear("up", torch, size.hidden, size.ffn_features(), t)),
        down(linear("down", torch, size.ffn_features(), size.hidden, t)) {}

  Tensor compute(const Tensor& x) const override {
    const Tensor h = norm1(x);
    const Tensor queries = rotary(split_heads(q(h), size));
    const Tensor keys = rotary(split_heads(k(h), size));
    const Tensor y = x + proj(attend(queries, keys, split_heads(v(h), size), size));
    const Tensor g = norm2(y);
    const Tensor gates = nn::functional::silu(gate(g));
    return y + down(gates * up(g));
  }

  nn::Linear linear(const std::string& name, const RuntimeContext& torch, std::int64_t in,
                    std::int64_t out, const TensorOptions& t) {
    return register_module(name, nn::Linear(torch, nn::LinearOptions(in, out).bias(false), t));
  }

  LanguageModelSize size;
  nn::RotaryEmbedding rotary;
  nn::RMSNorm norm1;
  nn::Linear q, k, v, proj;
  nn::RMSNorm norm2;
  nn::Linear gate, up, down;
};
KERNBENCH_MODULE(LlamaBlock);

struct LlamaImpl : nn::Module {
  LlamaImpl(const RuntimeContext& torch, const LanguageModelSize& size, const TensorOptions& t)
      : wte(register_module("wte", nn::Embedding(torch, size.vocab, size.hidden, t))) {
    register_module("blocks", blocks);
    TensorOptions of_tokens = t;
    of_tokens.dp = rows_of(t.dp);
    const nn::RotaryEmbedding rotary(torch, size.hidden / size.heads, positions_in_samples(size),
                                     of_tokens);
    for (std::int64_t i = 0; i < size.layers; ++i) {
      add_block(blocks, LlamaBlock(torch, size, rotary, t), recomputed);
    }
    norm = register_module("norm", nn::RMSNorm(torch, size.hidden, t, kNormEpsilon));
    head = register_module(
        "head", nn::Linear(torch, nn::LinearOptions(size.hidden, size.vocab).bias(false), t));
  }

  Tensor forward(const Tensor& tokens) const {
    return head(norm(call_blocks(blocks, wte(tokens))));
  }

  std::shared_ptr<RecomputedLayers> recomputed = std::make_shared<RecomputedLayers>();
  nn::Embedding wte;
  nn::ModuleList<LlamaBlock> blocks;
  nn::RMSNorm norm = nullptr;
  nn::Linear head = nullptr;
};

template <class Model>
LanguageModel made(const RuntimeContext& torch, const LanguageModelSize& size,
                   const TensorOptions& tensors) {
  const nn::ModuleHolder<Model> model(std::make_shared<Model>(torch, size, tensors));
  return {model.ptr(), [model](const Tensor& tokens) { return model(tokens); },
          [layer = model->blocks[0]](const Tensor& x) { return layer->compute(x); },
          model->recomputed};
}

// Number j of parameter q.
float weight(std::uint32_t q, std::uint32_t j) {
  const std::uint32_t bits = (j + 1) * 2654435761U + (q + 1) * (40503U * 65537U);
  return (static_cast<float>((bits >> 15) % 1024) - 512) / 512 / 8;
}

}  // namespace

LanguageModel make_gpt(const RuntimeContext& torch, const LanguageModelSize& size,
                       const TensorOptions& tensors) {
  return made<GptImpl>(torch, size, tensors);
}

LanguageModel make_gpt_blocks(const RuntimeContext& torch, const LanguageModelSize& size,
                              const TensorOptions& tensors) {
  return made<GptBlocksImpl>(torch, size, tensors);
}

LanguageModel make_llama(const RuntimeContext& torch, const LanguageModelSize& size,
                         const TensorOptions& tensors) {
  return made<LlamaImpl>(torch, size, tensors);
}

void fill_weights(const LanguageModel& model) {
  std::uint32_t q = 0;
  for (const auto& item : model.module->named_parameters()) {
    const Tensor& parameter = item.value();
    if (parameter.dim() == 2) {
      std::vector<float> elements;
      for (std::int64_t j = 0; j < parameter.numel(); ++j) {
        elements.push_back(weight(q, static_cast<std::uint32_t>(j)));
      }
      runtime::set_elements(*parameter.storage(), elements);
    } else if (item.key().ends_with(".bias")) {
      nn::init::zeros_(parameter);
    }
    ++q;
  }
}

}  // namespace kernbench::benches::train
