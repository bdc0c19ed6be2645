// A block of GPT as Megatron's ParallelTransformerLayer: ranks share the heads of the attention and
// the hidden features of the MLP.
//
// A page to copy: it needs only tp's layers and the operators.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "benches/tensor_parallel/dense_model.h"
#include "benches/tensor_parallel/parallel_mlp.h"
#include "benches/tensor_parallel/training_step.h"
#include "tp/layers.h"

namespace kernbench::benches::tensor_parallel {

struct GptBlockOptions {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;  // of all ranks together; the MLP has 4 hidden features
  bool sequence_parallel = false;
  bool overlap = true;  // communication in backward with weights' gradients
  DType dtype = DType::f16;
  int pes = 1;  // PEs that share a rank's heads
  std::string name = "block";
};

// Layer normalization of each row; the weight and the bias are replicated on all ranks and PEs.
class LayerNorm {
 public:
  LayerNorm(RuntimeContext& torch, const GptBlockOptions& options, const std::string& name);

  Tensor forward(const Tensor& x) const;

  tp::Parameter weight;  // [hidden], 1 at first
  tp::Parameter bias;    // [hidden], 0 at first
};

// x' = x + attention(norm(x)), y = x' + mlp(norm'(x')), with a causal attention.
//
//   x, y      [sequence, hidden]   the same on all ranks; sequence_parallel: [sequence / W, hidden]
//   qkv       [hidden, 3 hidden / W]: for each of the rank's heads its query, key and value
//   dense     [hidden / W, hidden]
//
// Communication: forward two all_reduces of [sequence, hidden], backward two.  sequence_parallel:
// forward two all_gathers and two reduce_scatters, backward two more all_gathers.
class GptBlock {
 public:
  GptBlock(RuntimeContext& torch, const GptBlockOptions& options);

  Tensor forward(const Tensor& x) const;
  // norm, qkv, dense, norm', mlp: of each weight and bias.
  std::vector<tp::Parameter> parameters() const;

 private:
  Tensor attention(const Tensor& x) const;

  const std::int64_t own_heads_;  // of this rank
  const LayerNorm norm_;
  const tp::ColumnParallelLinear qkv_;
  const tp::RowParallelLinear dense_;
  const LayerNorm mlp_norm_;
  const ParallelMlp mlp_;
};

// A rank's part of blocks that follow each other.
RankModel build_gpt(RuntimeContext& torch, const StepInput& input, const GptSize& size);

}  // namespace kernbench::benches::tensor_parallel
