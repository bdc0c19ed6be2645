// The values of a collective's tensors on their shards: what is brought there, and what is wrong.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "benches/collectives/exact_blocks.h"
#include "ccl/core/layout.h"
#include "runtime/tensor/tensor.h"

namespace kernbench::benches::collectives {

class CollectiveValues {
 public:
  // `layout`: the participants, if they are not the ranks of torch.distributed: PEs, or those of a
  // shift.  Else a rank contributes blocks, and of a partial tensor (all_reduce) every holder of a
  // summand does.
  CollectiveValues(const Topology& topology, const BlocksInput& input, const DPPolicy& placement,
                   std::optional<ccl::Layout> layout);

  // Writes the blocks that a rank gives into its tensors, whose rows, in order, they are.
  void bring(int rank, const std::vector<Tensor>& gives) const;

  // The number of wrong elements in all shards of the tensors that a rank takes blocks into,
  // including copies.  Elements are compared bit by bit, so that all ranks have the same zeros.
  std::int64_t count_wrong(int rank, const std::vector<Tensor>& takes) const;

 private:
  BlocksInput contributions(const BlocksInput& input) const;
  int contributor(int rank, const ShardInfo& shard) const;
  template <class BlockOf, class Visit>
  void for_each_shard(int rank, const std::vector<Tensor>& tensors, const BlockOf& block_of,
                      const Visit& visit) const;

  const std::optional<ccl::Layout> layout_;
  const bool is_shift_;
  const int cube_summands_;  // on a SIP
  const int pe_summands_;    // in a cube
  const std::int64_t count_;
  const ExactBlocks exact_;
};

}  // namespace kernbench::benches::collectives
