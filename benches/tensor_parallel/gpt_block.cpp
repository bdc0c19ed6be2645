#include "benches/tensor_parallel/gpt_block.h"

#include <fmt/format.h>

#include "runtime/functional/functional.h"
#include "tp/parallel_state.h"
#include "tp/parameter.h"

namespace kernbench::benches::tensor_parallel {

namespace F = nn::functional;

LayerNorm::LayerNorm(RuntimeContext& torch, const GptBlockOptions& options,
                     const std::string& name) {
  const auto make = [&](double value, std::string_view what) {
    tp::Parameter parameter(torch.full({options.hidden}, value,
                                       {.dtype = options.dtype,
                                        .dp = tp::policy_over_pes(Shard::replicate, options.pes, 1),
                                        .name = options.name + name + std::string(what)}));
    parameter.requires_grad_();
    // With sequence parallelism a rank has only its own tokens, so its gradient is a summand.
    parameter.sequence_parallel = options.sequence_parallel;
    return parameter;
  };
  weight = make(1, ".weight");
  bias = make(0, ".bias");
}

Tensor LayerNorm::forward(const Tensor& x) const {
  return F::layer_norm(x, weight.shape(), weight, bias);
}

GptBlock::GptBlock(RuntimeContext& torch, const GptBlockOptions& options)
    : own_heads_(tp::divide(options.heads, tp::get_tensor_model_parallel_world_size(torch),
                            fmt::format("heads of '{}', the tensor parallel ranks", options.name))),
      norm_(torch, options, ".norm"),
      qkv_(torch, {.in_features = options.hidden,
                   .out_features = 3 * options.hidden,
                   .sequence_parallel = options.sequence_parallel,
                   .async_tensor_model_parallel_allreduce = options.overlap,
                   .perform_initialization = false,
                   .dtype = options.dtype,
                   .num_cubes = options.pes,
                   .name = options.name + ".qkv"}),
      dense_(torch, {.in_features = options.hidden,
                     .out_features = options.hidden,
                     .sequence_parallel = options.sequence_parallel,
                     .perform_initialization = false,
                     .dtype = options.dtype,
                     .num_cubes = options.pes,
                     .name = options.name + ".dense"}),
      mlp_norm_(torch, options, ".mlp_norm"),
      mlp_(torch, {.hidden = options.hidden,
                   .ffn = 4 * options.hidden,
                   .sequence_parallel = options.sequence_parallel,
                   .overlap = options.overlap,
                   .dtype = options.dtype,
                   .pes = options.pes,
                   .name = options.name + ".mlp"}) {}

Tensor GptBlock::forward(const Tensor& x) const {
  const Tensor attended = x + attention(norm_.forward(x));
  return attended + mlp_.forward(mlp_norm_.forward(attended));
}

Tensor GptBlock::attention(const Tensor& x) const {
  const Tensor heads = split_heads(qkv_(x), own_heads_);  // [heads, sequence, 3 d]
  const std::vector<Tensor> parts = split(heads, heads.shape()[2] / 3, -1);
  const Tensor context =
      F::scaled_dot_product_attention(parts[0], parts[1], parts[2], {.is_causal = true});
  return dense_(merge_heads(context));
}

std::vector<tp::Parameter> GptBlock::parameters() const {
  std::vector<tp::Parameter> all = {norm_.weight,  norm_.bias,  qkv_.weight,      qkv_.bias,
                                    dense_.weight, dense_.bias, mlp_norm_.weight, mlp_norm_.bias};
  for (const tp::Parameter& parameter : mlp_.parameters()) all.push_back(parameter);
  return all;
}

RankModel build_gpt(RuntimeContext& torch, const StepInput& input, const GptSize& size) {
  RankModel model;
  std::vector<std::shared_ptr<const GptBlock>> blocks;
  for (std::int64_t layer = 0; layer < size.layers; ++layer) {
    blocks.push_back(std::make_shared<GptBlock>(
        torch, GptBlockOptions{.hidden = size.hidden,
                               .heads = size.heads,
                               .sequence_parallel = input.sequence_parallel,
                               .overlap = input.overlap,
                               .dtype = input.dtype,
                               .pes = input.pes,
                               .name = fmt::format("block{}", layer)}));
    for (const tp::Parameter& parameter : blocks.back()->parameters()) {
      model.parameters.push_back(parameter);
    }
  }
  model.forward = [blocks](const Tensor& x) {
    Tensor y = x;
    for (const auto& block : blocks) y = block->forward(y);
    return y;
  };
  return model;
}

}  // namespace kernbench::benches::tensor_parallel
