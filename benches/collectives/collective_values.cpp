#include "benches/collectives/collective_values.h"

#include <bit>
#include <functional>
#include <numeric>
#include <source_location>
#include <span>
#include <utility>

#include "runtime/tensor/host_copy.h"
#include "runtime/torch/runtime_context.h"

namespace kernbench::benches::collectives {

namespace {

int summands(Shard level, int holders) {
  return level == Shard::partial ? holders : 1;
}

}  // namespace

CollectiveValues::CollectiveValues(const Topology& topology, const BlocksInput& input,
                                   const DPPolicy& placement, std::optional<ccl::Layout> layout)
    : layout_(std::move(layout)),
      is_shift_(input.collective == MeasuredCollective::shift),
      cube_summands_(summands(placement.cube, placement.cube_holders(topology))),
      pe_summands_(summands(placement.pe, placement.pe_holders(topology))),
      count_(input.count),
      exact_(contributions(input)) {}

BlocksInput CollectiveValues::contributions(const BlocksInput& input) const {
  BlocksInput blocks = input;
  if (!layout_) blocks.ranks *= cube_summands_ * pe_summands_;
  return blocks;
}

// Returns the oracle's number of the participant whose block lies in a shard.
int CollectiveValues::contributor(int rank, const ShardInfo& shard) const {
  if (layout_) {
    const int participant = layout_->find_participant({shard.sip, shard.cube, shard.pe});
    return is_shift_ ? layout_->place(participant).ring.value().index : participant;
  }
  const int cube = cube_summands_ == 1 ? 0 : shard.cube;
  const int pe = pe_summands_ == 1 ? 0 : shard.pe;
  return (rank * cube_summands_ + cube) * pe_summands_ + pe;
}

// Calls visit(tensor, index, elements) for each shard that has elements.  The rows of the tensors,
// in order, are the blocks block_of(contributor, 0), block_of(contributor, 1), ...
template <class BlockOf, class Visit>
void CollectiveValues::for_each_shard(int rank, const std::vector<Tensor>& tensors,
                                      const BlockOf& block_of, const Visit& visit) const {
  int first_block = 0;
  for (const Tensor& x : tensors) {
    const int row_count = static_cast<int>(x.shape()[0]);
    std::vector<std::vector<float>> rows;
    int owner = -1;  // of the rows
    for (std::size_t i = 0; i < x.shards().size(); ++i) {
      const ShardInfo& shard = x.shards()[i];
      if (shard.shape.numel() == 0) continue;
      if (const int own = contributor(rank, shard); own != std::exchange(owner, own)) {
        rows.clear();
        for (int row = 0; row < row_count; ++row) rows.push_back(block_of(own, first_block + row));
      }
      // If PEs are ranks, a block is only a part of the row.
      const auto part = [&](std::int64_t row) {
        return std::span<const float>(rows[static_cast<std::size_t>(shard.offset[0] + row)])
            .subspan(static_cast<std::size_t>(shard.offset[1] % count_),
                     static_cast<std::size_t>(shard.shape[1]));
      };
      if (shard.shape[0] == 1) {
        visit(x, i, part(0));
        continue;
      }
      std::vector<float> elements;
      for (std::int64_t row = 0; row < shard.shape[0]; ++row) {
        elements.insert(elements.end(), part(row).begin(), part(row).end());
      }
      visit(x, i, elements);
    }
    first_block += row_count;
  }
}

void CollectiveValues::bring(int rank, const std::vector<Tensor>& gives) const {
  for_each_shard(
      rank, gives, [&](int from, int block) { return exact_.given(from, block); },
      [](const Tensor& x, std::size_t i, std::span<const float> elements) {
        // Not copy_shard_(), which needs autograd: first_screen has none.
        runtime::copy_elements_of_shard(x, i, RuntimeContext::tensor(elements, x.shards()[i].shape),
                                        std::source_location::current());
      });
}

std::int64_t CollectiveValues::count_wrong(int rank, const std::vector<Tensor>& takes) const {
  constexpr auto kBits = std::bit_cast<std::uint32_t, float>;
  std::int64_t wrong = 0;
  for_each_shard(
      rank, takes, [&](int to, int block) { return exact_.taken(to, block); },
      [&](const Tensor& x, std::size_t i, std::span<const float> expected) {
        const auto differ = [](float a, float b) { return kBits(a) != kBits(b); };
        const std::vector<float> found = x.shard_to_vector(i);
        wrong += std::transform_reduce(found.begin(), found.end(), expected.begin(),
                                       std::int64_t{0}, std::plus{}, differ);
      });
  return wrong;
}

}  // namespace kernbench::benches::collectives
