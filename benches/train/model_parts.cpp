#include "benches/train/model_parts.h"

#include "runtime/autograd/autograd.h"
#include "runtime/autograd/checkpoint.h"
#include "runtime/functional/functional.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::train {

Tensor RecomputableBlock::forward(const Tensor& x) const {
  if (recomputed == nullptr || !recomputed->contains(layer)) return compute(x);
  const auto again = [self = shared_from_this(), this](const std::vector<Tensor>& in) {
    return compute(in.front());
  };
  if (!recomputed->keeps_products) return nn::utils::checkpoint(again, {x});
  return nn::utils::checkpoint(
      again, {x},
      nn::utils::create_selective_checkpoint_contexts({"matmul", "addmm", "varlen_attn"}));
}

Tensor split_heads(const Tensor& x, const LanguageModelSize& size) {
  return x.view({size.tokens(), -1, size.hidden / size.heads});
}

Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const LanguageModelSize& size) {
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i <= size.batch; ++i) starts.push_back(i * size.seq);
  const Tensor cu_seq = RuntimeContext::tensor(starts, {size.batch + 1});
  const Tensor attended = nn::attention::varlen_attn(q, k, v, cu_seq, cu_seq, size.seq, size.seq,
                                                     {.is_causal = true, .enable_gqa = true});
  return attended.view({size.tokens(), -1});
}

std::vector<std::int64_t> positions_in_samples(const LanguageModelSize& size) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < size.tokens(); ++i) positions.push_back(i % size.seq);
  return positions;
}

DPPolicy rows_of(const DPPolicy& weights) {
  return {Shard::row_wise, Shard::row_wise, weights.num_cubes, weights.num_pes};
}

}  // namespace kernbench::benches::train
