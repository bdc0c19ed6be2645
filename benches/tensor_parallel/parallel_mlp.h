// Megatron's ParallelMLP: two linear layers, of which ranks share the hidden features.
//
// A page to copy: it needs only tp's layers.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tp/layers.h"

namespace kernbench::benches::tensor_parallel {

enum class Activation : std::uint8_t { relu, gelu };

struct ParallelMlpOptions {
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  // hidden features of all ranks together
  Activation activation = Activation::gelu;
  bool sequence_parallel = false;
  bool overlap = true;  // communication in backward with weights' gradients
  DType dtype = DType::f16;
  int pes = 1;  // PEs that share a rank's part
  std::string name = "mlp";
};

// y = activation(x A + a) B + b
//
//   x, y  [tokens, hidden]       the same on all ranks; sequence_parallel: [tokens / W, hidden]
//   A     [hidden, ffn / W], a   this rank's columns
//   B     [ffn / W, hidden]      this rank's rows; b is the same on all ranks
//
// Communication: forward one all_reduce of y, backward one of the gradient of x.
// sequence_parallel: forward an all_gather and a reduce_scatter, backward one more all_gather.
class ParallelMlp {
 public:
  ParallelMlp(RuntimeContext& torch, const ParallelMlpOptions& options);

  Tensor forward(const Tensor& x) const;
  std::vector<tp::Parameter> parameters() const;  // A, a, B, b

 private:
  const Activation activation_;
  const tp::ColumnParallelLinear up_;
  const tp::RowParallelLinear down_;
};

}  // namespace kernbench::benches::tensor_parallel
