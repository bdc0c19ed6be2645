#include "benches/collectives/exact_blocks.h"

#include <algorithm>

#include "benches/bench/exact_integers.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::collectives {

namespace {

// The most factors of 2 in a product: powers of two are exact, and f16 holds 2^8.
constexpr std::int64_t kMostTwos = 8;

float (*combination(ReduceOp op))(float, float) {
  switch (op) {
    case ReduceOp::product:
      return [](float a, float b) { return a * b; };
    case ReduceOp::min:
      return [](float a, float b) { return std::min(a, b); };
    case ReduceOp::max:
      return [](float a, float b) { return std::max(a, b); };
    default:
      return [](float a, float b) { return a + b; };
  }
}

std::size_t stride_for(std::int64_t ranks, std::int64_t most) {
  return static_cast<std::size_t>((ranks + most - 1) / most);
}

}  // namespace

ExactBlocks::ExactBlocks(const BlocksInput& input)
    : input_(input),
      seed_(scrambled_seed(input.seed)),
      largest_(std::clamp<std::int64_t>(exact_limit(input.dtype) / input.ranks, 1, 1000)),
      stride_(input.op == ReduceOp::product ? stride_for(input.ranks, kMostTwos)
                                            : stride_for(input.ranks, exact_limit(input.dtype))) {}

std::vector<float> ExactBlocks::given(int rank, int block) const {
  const auto of_rank = scrambled(static_cast<std::uint32_t>(rank) * 0x9e3779b9 + seed_);
  const auto of_block = scrambled(of_rank + static_cast<std::uint32_t>(block));
  const auto drawn = [&](std::size_t i) {
    return std::uint64_t{scrambled(static_cast<std::uint32_t>(i) ^ of_block)};
  };
  std::vector<float> elements(static_cast<std::size_t>(input_.count));
  const std::size_t first = (stride_ - static_cast<std::size_t>(rank + block) % stride_) % stride_;
  if (input_.op == ReduceOp::product) {
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = drawn(i) % 2 == 0 ? 1 : -1;
    for (std::size_t i = first; i < elements.size(); i += stride_) elements[i] *= 2;
    return elements;
  }
  const auto range = static_cast<std::uint64_t>(2 * largest_ + 1);
  for (std::size_t i = first; i < elements.size(); i += stride_) {
    elements[i] = static_cast<float>(static_cast<std::int64_t>(drawn(i) * range >> 32) - largest_);
  }
  return elements;
}

// Every partial result is an integer that f32 holds, so the order of the ranks does not matter.
std::vector<float> ExactBlocks::reduced(int block) const {
  std::vector<float> elements = given(0, block);
  for (int rank = 1; rank < input_.ranks; ++rank) {
    std::ranges::transform(elements, given(rank, block), elements.begin(), combination(input_.op));
  }
  if (input_.op != ReduceOp::avg) return elements;
  for (float& element : elements) {
    element = sim::round_to(input_.dtype, element / static_cast<float>(input_.ranks));
  }
  return elements;
}

const std::vector<float>& ExactBlocks::result_on_all_ranks() const {
  if (result_on_all_ranks_.empty()) result_on_all_ranks_ = reduced(0);
  return result_on_all_ranks_;
}

std::vector<float> ExactBlocks::taken(int rank, int block) const {
  if (input_.collective >= MeasuredCollective::sendrecv) {  // or a shift
    return given((rank + input_.ranks - 1) % input_.ranks, 0);
  }
  const auto& traits = distributed::traits_of(to_collective_kind(input_.collective));
  const bool is_for_each = traits.gives == distributed::BlockCount::each;
  if (!traits.reduces) {
    const bool is_of_root = traits.root == distributed::Root::giver;
    return given(is_of_root ? input_.root : block, is_for_each ? rank : 0);
  }
  if (is_for_each) return reduced(rank);
  return traits.is_sent(input_.root, rank, rank) ? result_on_all_ranks() : given(rank, 0);
}

}  // namespace kernbench::benches::collectives
