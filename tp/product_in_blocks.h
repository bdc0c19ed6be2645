// A linear layer's products, computed in blocks of the dimension in which its weight is cut over
// ranks: each block has the bits that it has where a rank has no other one, and blocks are added as
// Reproducible::pairs adds ranks (ADR-0133).

#pragma once

#include <cstdint>
#include <string_view>

#include "tp/layers.h"

namespace kernbench::tp {

struct ProductInBlocks {
  WeightCut cut = WeightCut::none;
  std::int64_t blocks = 1;  // of this rank's part

  // x w + bias.
  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  // dy w^T.
  Tensor gradient_of_input(const Tensor& dy, const Tensor& weight) const;
  // x^T dy, of matrices.
  Tensor gradient_of_weight(const Tensor& x, const Tensor& dy) const;
  // The sum of the rows of dy.
  Tensor gradient_of_bias(const Tensor& dy) const;
};

// The blocks of each rank's part of a dimension of size `size` that a group shares: 1, or of
// reductions of level Reproducible::pairs so many that there are 16 over all ranks.  Throws
// CollectiveError KB-T001 if they do not divide it, or ranks do not divide 16.
std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          std::int64_t size, std::string_view what);
// The same for a layer.  Throws KB-T006 for sequence_parallel at that level: gradients of what
// stands between layers would be sums over each rank's own tokens.
std::int64_t count_blocks_of_layer(const RuntimeContext& torch,
                                   const distributed::ProcessGroup& group, std::int64_t size,
                                   std::string_view name, bool sequence_parallel);

}  // namespace kernbench::tp
