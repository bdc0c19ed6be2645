#include "benches/collectives/exact_summands.h"

#include <algorithm>
#include <bit>

#include "benches/collectives/exact_integers.h"

namespace kernbench::benches {

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>,
                            std::bit_cast<std::uint32_t, float>);
}

}  // namespace

ExactSummands::ExactSummands(const Topology& topology, const DPPolicy& placement, DType dtype,
                             std::int64_t n_elem, std::uint64_t seed)
    : seed_(scrambled_seed(seed)),
      cube_holders_(placement.cube == Shard::partial ? placement.cube_holders(topology) : 1),
      pe_holders_(placement.pe == Shard::partial ? placement.pe_holders(topology) : 1),
      holder_count_(topology.system.sip_count * cube_holders_ * pe_holders_),
      largest_(std::clamp<std::int64_t>(exact_limit(dtype) / holder_count_, 1, 1000)),
      stride_((holder_count_ + exact_limit(dtype) - 1) / exact_limit(dtype)) {
  add_up(n_elem);
}

ExactSummands::ExactSummands(int participants, DType dtype, std::int64_t n_elem, std::uint64_t seed)
    : seed_(scrambled_seed(seed)),
      cube_holders_(1),
      pe_holders_(1),
      holder_count_(participants),
      largest_(std::clamp<std::int64_t>(exact_limit(dtype) / holder_count_, 1, 1000)),
      stride_((holder_count_ + exact_limit(dtype) - 1) / exact_limit(dtype)) {
  add_up(n_elem);
}

void ExactSummands::add_up(std::int64_t n_elem) {
  sums_.assign(static_cast<std::size_t>(n_elem), 0.0F);
  std::vector<float> summands(sums_.size());
  for (std::int64_t holder = 0; holder < holder_count_; ++holder) {
    draw(holder, 0, summands);
    for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += summands[i];  // exact in f32 too
  }
}

std::int64_t ExactSummands::holder_of(int rank, int cube, int pe) const {
  const std::int64_t own_cube = cube_holders_ == 1 ? 0 : cube;
  const std::int64_t own_pe = pe_holders_ == 1 ? 0 : pe;
  return (rank * cube_holders_ + own_cube) * pe_holders_ + own_pe;
}

void ExactSummands::draw(std::int64_t holder, std::int64_t first, std::span<float> summands) const {
  const auto range = static_cast<std::uint64_t>(2 * largest_ + 1);
  const auto key = scrambled(static_cast<std::uint32_t>(holder) * 0x9e3779b9 + seed_);
  for (std::size_t i = 0; i < summands.size(); ++i) {
    const std::int64_t element = first + static_cast<std::int64_t>(i);
    const std::uint64_t drawn = scrambled(static_cast<std::uint32_t>(element) ^ key);
    summands[i] = static_cast<float>(static_cast<std::int64_t>(drawn * range >> 32) - largest_);
  }
  if (stride_ == 1) return;
  for (std::size_t i = 0; i < summands.size(); ++i) {
    if ((holder + first + static_cast<std::int64_t>(i)) % stride_ != 0) summands[i] = 0;
  }
}

std::vector<float> ExactSummands::of_shard(int rank, const ShardInfo& shard) const {
  std::vector<float> elements(static_cast<std::size_t>(shard.shape.numel()));
  draw(holder_of(rank, shard.cube, shard.pe), shard.offset[1], elements);
  return elements;
}

std::vector<float> ExactSummands::of_participant(int participant) const {
  std::vector<float> elements(sums_.size());
  draw(participant, 0, elements);
  return elements;
}

std::int64_t ExactSummands::count_wrong(const std::vector<float>& elements,
                                        std::int64_t first) const {
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    wrong += elements[i] != sum(first + static_cast<std::int64_t>(i));  // also if it is NaN
  }
  return wrong;
}

std::int64_t ExactSummands::count_wrong(const std::vector<Tensor>& by_rank) const {
  std::int64_t wrong = 0;
  std::vector<bool> differs(by_rank.size(), false);
  for (std::size_t shard = 0; shard < by_rank.front().shards().size(); ++shard) {
    std::vector<float> of_first;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      const ShardInfo& info = by_rank[rank].shards()[shard];
      if (info.shape.numel() == 0) continue;
      std::vector<float> elements = by_rank[rank].shard_to_vector(shard);
      wrong += count_wrong(elements, info.offset[1]);
      if (rank == 0)
        of_first = std::move(elements);
      else if (!same_bits(elements, of_first))
        differs[rank] = true;
    }
  }
  return wrong + std::ranges::count(differs, true);
}

std::int64_t ExactSummands::count_wrong_shards(const Tensor& x) const {
  std::int64_t wrong = 0;
  for (std::size_t shard = 0; shard < x.shards().size(); ++shard) {
    if (x.shards()[shard].shape.numel() > 0) wrong += count_wrong(x.shard_to_vector(shard), 0);
  }
  return wrong;
}

}  // namespace kernbench::benches
