// Inputs of a reduction whose sum is exact in every order, and the sum by plain integers.
//
// They are independent of the code under test: a summand depends only on its holder and its
// element, so the reference is right without relying on tensors or shards.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/tensor/tensor.h"
#include "sim_engine/base/dtype.h"
#include "sim_engine/topology/topology.h"

namespace kernbench::benches {

class ExactSummands {
 public:
  // For tensors {1, n_elem} of `placement` on every SIP.
  ExactSummands(const Topology& topology, const DPPolicy& placement, DType dtype,
                std::int64_t n_elem, std::uint64_t seed);

  // For participants that each contribute a shard of `n_elem` elements: ranks are PEs.
  ExactSummands(int participants, DType dtype, std::int64_t n_elem, std::uint64_t seed);

  // The elements of a rank's shard before the reduction.  Copies hold the same elements, and
  // partial holders each their own summand.
  std::vector<float> of_shard(int rank, const ShardInfo& shard) const;

  // The elements of a participant's shard before the reduction.
  std::vector<float> of_participant(int participant) const;

  // The sum of element `element` over all ranks and holders.
  float sum(std::int64_t element) const { return sums_[static_cast<std::size_t>(element)]; }

  // The number of elements, over all shards of all ranks and including copies, that are not the
  // sum, plus the number of ranks whose bits differ from rank 0's.
  std::int64_t count_wrong(const std::vector<Tensor>& by_rank) const;

  // The same count for a tensor whose shards are the participants'.
  std::int64_t count_wrong_shards(const Tensor& x) const;

  // The number of holders with a summand of their own, over all ranks.
  std::int64_t holder_count() const { return holder_count_; }

 private:
  void add_up(std::int64_t n_elem);
  std::int64_t holder_of(int rank, int cube, int pe) const;
  // A holder's summands of consecutive elements.
  void draw(std::int64_t holder, std::int64_t first, std::span<float> summands) const;
  // The number of `elements`, which begin at index `first`, that are not the sums.
  std::int64_t count_wrong(const std::vector<float>& elements, std::int64_t first) const;

  const std::uint32_t seed_;
  const std::int64_t cube_holders_;  // on a SIP
  const std::int64_t pe_holders_;    // in a cube
  const std::int64_t holder_count_;
  const std::int64_t largest_;  // magnitude of a summand
  const std::int64_t stride_;   // every stride-th holder has a summand other than 0
  std::vector<float> sums_;
};

}  // namespace kernbench::benches
