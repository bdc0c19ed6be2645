#include "benches/train/parallel_language_model.h"

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "benches/train/model_parts.h"
#include "runtime/functional/functional.h"
#include "runtime/nn/layers.h"
#include "runtime/nn/module.h"
#include "runtime/torch/runtime_context.h"
#include "sim_engine/base/error.h"
#include "tp/layers.h"
#include "tp/parameter.h"

namespace kernbench::benches::train {

namespace {

// The sizes and options that a rank's layers are made from.
struct RankParts {
  RuntimeContext& torch;
  LanguageModelSize size;  // of the whole model
  TensorOptions tensors;
  ParallelOptions options;
  int ranks = 1;
  nn::RotaryEmbedding rotary = nullptr;  // of Llama

  bool is_gpt() const { return options.model == ModelKind::gpt; }
  bool is_sequence_parallel() const { return options.sequence_parallel && ranks > 1; }

  tp::ColumnParallelLinearOptions column(const std::string& name, std::int64_t in,
                                         std::int64_t out) const {
    return linear<tp::ColumnParallelLinearOptions>(name, in, out);
  }
  tp::RowParallelLinearOptions row(const std::string& name, std::int64_t in,
                                   std::int64_t out) const {
    return linear<tp::RowParallelLinearOptions>(name, in, out);
  }

 private:
  template <class Options>
  Options linear(const std::string& name, std::int64_t in, std::int64_t out) const {
    return {.in_features = in,
            .out_features = out,
            .bias = is_gpt(),
            .sequence_parallel = is_sequence_parallel(),
            .perform_initialization = false,
            .dtype = tensors.dtype,
            .dp = tensors.dp,
            .name = name};
  }
};

// A normalization, which with sequence parallelism sees a rank's own tokens.
struct AnyNorm {
  std::shared_ptr<nn::Module> module;
  std::function<Tensor(const Tensor& x)> forward;

  Tensor operator()(const Tensor& x) const { return forward(x); }
};

template <class Impl, class... Arguments>
AnyNorm make_norm_of(const RankParts& of, const Arguments&... arguments) {
  const auto made = [](auto impl) {
    const nn::ModuleHolder<typename decltype(impl)::element_type> holder(std::move(impl));
    return AnyNorm{holder.ptr(), [holder](const Tensor& x) { return holder(x); }};
  };
  if (!of.is_sequence_parallel()) return made(std::make_shared<Impl>(of.torch, arguments...));
  return made(std::make_shared<tp::SequenceParallel<Impl>>(of.torch, arguments...));
}

AnyNorm make_norm(const RankParts& of) {
  if (of.is_gpt()) return make_norm_of<nn::LayerNormImpl>(of, of.size.hidden, of.tensors);
  return make_norm_of<nn::RMSNormImpl>(of, of.size.hidden, of.tensors, kNormEpsilon);
}

struct ParallelBlockImpl : RecomputableBlock {
  explicit ParallelBlockImpl(const RankParts& parts)
      : of(parts),
        norm1(make_norm(of)),
        qkv(of.torch, of.column("qkv", of.size.hidden, of.size.hidden + 2 * of.size.kv_features())),
        proj(of.torch, of.row("proj", of.size.hidden, of.size.hidden)),
        norm2(make_norm(of)),
        up(of.torch,
           of.column("up", of.size.hidden, (of.is_gpt() ? 1 : 2) * of.size.ffn_features())),
        down(of.torch, of.row("down", of.size.ffn_features(), of.size.hidden)) {
    register_module("norm1", norm1.module);
    register_module("qkv", qkv);
    register_module("proj", proj);
    register_module("norm2", norm2.module);
    register_module("up", up);
    register_module("down", down);
  }

  Tensor compute(const Tensor& x) const override {
    const Tensor y = x + proj(attention(norm1(x)));
    return y + down(activated(up(norm2(y))));
  }

  Tensor attention(const Tensor& x) const {
    const std::int64_t of_query = of.size.hidden / of.ranks;
    const std::int64_t of_key = of.size.kv_features() / of.ranks;
    const std::vector<Tensor> parts = split(qkv(x), {of_query, of_key, of_key}, -1);
    const auto heads = [&](std::size_t i) { return split_heads(contiguous(parts[i]), of.size); };
    if (of.is_gpt()) return attend(heads(0), heads(1), heads(2), of.size);
    return attend(of.rotary(heads(0)), of.rotary(heads(1)), heads(2), of.size);
  }

  Tensor activated(const Tensor& x) const {
    if (of.is_gpt()) return nn::functional::gelu(x);
    const std::vector<Tensor> gate_and_up = chunk(x, 2, -1);
    return nn::functional::silu(gate_and_up[0]) * gate_and_up[1];
  }

  RankParts of;
  AnyNorm norm1;
  tp::ColumnParallelLinear qkv;
  tp::RowParallelLinear proj;
  AnyNorm norm2;
  tp::ColumnParallelLinear up;
  tp::RowParallelLinear down;
};
KERNBENCH_MODULE(ParallelBlock);

struct ParallelModelImpl : nn::Module {
  explicit ParallelModelImpl(const RankParts& parts) : of(parts) {
    if (of.options.has_embedding) make_embedding();
    register_module("blocks", blocks);
    for (std::int64_t i = 0; i < of.size.layers; ++i) {
      add_block(blocks, ParallelBlock(of), recomputed);
    }
    if (!of.options.has_head) return;
    norm = make_norm(of);
    register_module("norm", norm.module);
    register_module("head", head.emplace(of.torch, head_options()));
  }

  void make_embedding() {
    const tp::VocabParallelEmbeddingOptions options{
        .num_embeddings = parallel_vocab(of.size, of.ranks),
        .embedding_dim = of.size.hidden,
        // GPT's positions are added to all tokens first, as in Megatron.
        .reduce_scatter_embeddings = of.is_sequence_parallel() && !of.is_gpt(),
        .perform_initialization = false,
        .dtype = of.tensors.dtype,
        .dp = of.tensors.dp,
        .name = "wte"};
    register_module("wte", wte.emplace(of.torch, options));
    if (of.is_gpt()) {
      wpe =
          register_module("wpe", nn::Embedding(of.torch, of.size.seq, of.size.hidden, of.tensors));
      positions = register_buffer("positions",
                                  of.torch.tensor(positions_in_samples(of.size), {of.size.tokens()},
                                                  {.dp = rows_of(of.tensors.dp)}));
    }
  }

  // Tokens, or what another stage gives, to logits, or to what another stage takes.
  Tensor forward(const Tensor& input) const {
    const Tensor x = call_blocks(blocks, of.options.has_embedding ? embed(input) : input);
    return of.options.has_head ? (*head)(norm(x)) : x;
  }

  Tensor embed(const Tensor& tokens) const {
    Tensor x = (*wte)(tokens);
    if (of.is_gpt()) {
      x = x + wpe(positions);
      if (of.is_sequence_parallel()) x = tp::scatter_to_sequence_parallel_region(of.torch, x);
    }
    return x;
  }

  tp::ColumnParallelLinearOptions head_options() const {
    auto options = of.column("head", of.size.hidden, parallel_vocab(of.size, of.ranks));
    options.bias = false;
    return options;
  }

  RankParts of;
  std::shared_ptr<RecomputedLayers> recomputed = std::make_shared<RecomputedLayers>();
  std::optional<tp::VocabParallelEmbedding> wte;
  nn::Embedding wpe = nullptr;
  Tensor positions;
  nn::ModuleList<ParallelBlock> blocks;
  AnyNorm norm;
  std::optional<tp::ColumnParallelLinear> head;
};

}  // namespace

std::optional<std::string> describe_unshared(const LanguageModelSize& size, int ranks,
                                             const ParallelOptions& options) {
  std::vector<std::pair<std::string_view, std::int64_t>> shared = {
      {"heads", size.heads}, {"kv_heads", size.key_heads()}, {"ffn", size.ffn_features()}};
  if (options.sequence_parallel) shared.emplace_back("the number of tokens", size.tokens());
  for (const auto& [what, number] : shared) {
    if (number % ranks == 0) continue;
    return fmt::format("tp {} does not divide {}, which is {}", ranks, what, number);
  }
  return std::nullopt;
}

void check_shares(std::string_view bench, const LanguageModelSize& size, int ranks,
                  const ParallelOptions& options) {
  const auto why = describe_unshared(size, ranks, options);
  if (why) throw UsageError("KB-U012", "{}: {}", bench, *why);
}

std::int64_t parallel_vocab(const LanguageModelSize& size, int ranks) {
  return tp::padded_vocab_size(size.vocab, ranks);
}

LanguageModel make_parallel(RuntimeContext& torch, const LanguageModelSize& size,
                            const TensorOptions& tensors, const ParallelOptions& options) {
  RankParts parts{torch, size, tensors, options, tp::get_tensor_model_parallel_world_size(torch)};
  check_shares("make_parallel", size, parts.ranks, options);
  parts.tensors.dtype = tensors.dtype.value_or(DType::f32);  // as of layers of one rank
  if (!parts.is_gpt()) {
    TensorOptions of_tokens = tensors;
    of_tokens.dp = rows_of(tensors.dp);
    parts.rotary =
        nn::RotaryEmbedding(torch, size.hidden / size.heads, positions_in_samples(size), of_tokens);
  }
  const nn::ModuleHolder<ParallelModelImpl> model(std::make_shared<ParallelModelImpl>(parts));
  return {.module = model.ptr(),
          .forward = [model](const Tensor& tokens) { return model(tokens); },
          .recomputed = model->recomputed};
}

Tensor parallel_loss(RuntimeContext& torch, const Tensor& logits, const Tensor& targets) {
  return mean(tp::vocab_parallel_cross_entropy(torch, logits, targets));
}

}  // namespace kernbench::benches::train
