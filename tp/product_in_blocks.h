// A linear layer's products, computed in blocks of the dimension in which its weight is cut over
// ranks: each block has the bits that it has where a rank has no other one, and blocks are added as
// Reproducible::pairs adds ranks (ADR-0133).

#pragma once

#include <cstdint>
#include <string_view>

#include "runtime/ops/placement.h"
#include "tp/layers.h"
#include "tp/parameter.h"

namespace kernbench::tp {

class ProductInBlocks {
 public:
  explicit ProductInBlocks(const WeightBlocks& blocks)
      : count_(blocks.count), has_columns_(blocks.cut == WeightBlocks::Cut::columns) {}

  // x w + bias; for a weight that is cut in rows, without bias.
  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) const;
  // dy w^T.
  Tensor gradient_of_input(const Tensor& dy, const Tensor& weight) const;
  // x^T dy, of matrices, for a weight that lies so.
  Tensor gradient_of_weight(const Tensor& x, const Tensor& dy, const ops::Placement& weight) const;
  // The sum of the rows of dy.
  Tensor gradient_of_bias(const Tensor& dy) const;

 private:
  template <class Of>
  Tensor sum(const Of& of) const;
  template <class Of>
  Tensor concatenate(int dim, const Of& of) const;

  std::int64_t count_;
  bool has_columns_;
};

// The blocks of each rank's part of a dimension of size `size` that a group shares: 1, or of
// reductions of level Reproducible::pairs so many that there are 16 over all ranks.  Throws
// CollectiveError KB-T001 if they do not divide it, or ranks do not divide 16.
std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          std::int64_t size, std::string_view what);

// The options of a layer that decide on its blocks.
struct LayerInBlocks {
  std::string_view name;
  std::int64_t size;  // of the dimension that ranks share
  bool sequence_parallel;
  int stride;
  bool is_on_one_pe;  // a rank's part

  // REQUIRES: the options of a layer, which outlive this
  template <class Options>
  LayerInBlocks(const Options& options, std::int64_t shared_size)
      : name(options.name),
        size(shared_size),
        sequence_parallel(options.sequence_parallel),
        stride(options.stride),
        is_on_one_pe(policy_of_part(options, Shard::replicate) == DPPolicy::on_one_pe()) {}
};

// Throws KB-T006 at that level: gradients of what stands between layers would be sums over each
// rank's own tokens.
void refuse_sequence_parts(const RuntimeContext& torch, std::string_view layer);

// Counts the blocks of a layer.  Throws KB-T006 for what cannot be computed in blocks:
// sequence_parallel, weights that join several ones (`stride`), and those that PEs share.
std::int64_t count_blocks(const RuntimeContext& torch, const distributed::ProcessGroup& group,
                          const LayerInBlocks& layer);

}  // namespace kernbench::tp
