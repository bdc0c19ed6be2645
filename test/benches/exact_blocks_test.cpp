#include "benches/collectives/exact_blocks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "benches/bench/exact_integers.h"
#include "sim_engine/values/element_format.h"

namespace kernbench::benches::exact_blocks_test {

namespace {

constexpr std::int64_t kCount = 50;

collectives::ExactBlocks blocks(collectives::MeasuredCollective collective, int ranks,
                                ReduceOp op = ReduceOp::sum, DType dtype = DType::f32,
                                int root = 0) {
  return collectives::ExactBlocks({collective, ranks, root, op, dtype, kCount, 7});
}

}  // namespace

TEST_CASE("sums and products of blocks are exact in the type, in any order", "[exact_blocks]") {
  for (const DType dtype : kDTypes) {
    for (const int ranks : {1, 2, 6, 64, 300}) {
      CAPTURE(name_of(dtype), ranks);
      const auto sums =
          blocks(collectives::MeasuredCollective::all_reduce, ranks, ReduceOp::sum, dtype);
      const auto products =
          blocks(collectives::MeasuredCollective::all_reduce, ranks, ReduceOp::product, dtype);
      for (std::size_t e = 0; e < kCount; ++e) {
        double magnitude = 0;
        double product = 1;
        for (int rank = 0; rank < ranks; ++rank) {
          const float value = sums.given(rank, 0)[e];
          CHECK(std::trunc(value) == value);
          magnitude += std::abs(value);
          product *= products.given(rank, 0)[e];
        }
        CHECK(magnitude <= static_cast<double>(exact_limit(dtype)));
        CHECK(std::abs(product) <= 256);
        CHECK(products.taken(0, 0)[e] == product);
      }
    }
  }
}

TEST_CASE("blocks differ by rank, by destination and by seed", "[exact_blocks]") {
  const auto first = blocks(collectives::MeasuredCollective::all_to_all, 6);
  CHECK(first.given(0, 0) != first.given(1, 0));
  CHECK(first.given(0, 0) != first.given(0, 1));
  CHECK(first.given(0, 1) != first.given(1, 0));
  const collectives::ExactBlocks other(
      {collectives::MeasuredCollective::all_to_all, 6, 0, ReduceOp::sum, DType::f32, kCount, 8});
  CHECK(first.given(0, 0) != other.given(0, 0));
}

TEST_CASE("each rank takes what the collective says", "[exact_blocks]") {
  constexpr int kRanks = 5;
  constexpr int kRoot = 3;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto of = [](collectives::MeasuredCollective collective) {
      return blocks(collective, kRanks, ReduceOp::sum, DType::f32, kRoot);
    };
    const auto sum_of = [](const collectives::ExactBlocks& exact, int block) {
      std::vector<float> sum(kCount, 0);
      for (int from = 0; from < kRanks; ++from) {
        const auto given = exact.given(from, block);
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += given[e];
      }
      return sum;
    };
    const auto all_reduce = of(collectives::MeasuredCollective::all_reduce);
    CHECK(all_reduce.taken(rank, 0) == sum_of(all_reduce, 0));
    const auto reduce = of(collectives::MeasuredCollective::reduce);
    CHECK(reduce.taken(rank, 0) == (rank == kRoot ? sum_of(reduce, 0) : reduce.given(rank, 0)));
    const auto reduce_scatter = of(collectives::MeasuredCollective::reduce_scatter);
    CHECK(reduce_scatter.taken(rank, 0) == sum_of(reduce_scatter, rank));
    const auto broadcast = of(collectives::MeasuredCollective::broadcast);
    CHECK(broadcast.taken(rank, 0) == broadcast.given(kRoot, 0));
    const auto scatter = of(collectives::MeasuredCollective::scatter);
    CHECK(scatter.taken(rank, 0) == scatter.given(kRoot, rank));
    const auto sendrecv = of(collectives::MeasuredCollective::sendrecv);
    CHECK(sendrecv.taken(rank, 0) == sendrecv.given((rank + 4) % kRanks, 0));
    for (int from = 0; from < kRanks; ++from) {
      const auto all_gather = of(collectives::MeasuredCollective::all_gather);
      CHECK(all_gather.taken(rank, from) == all_gather.given(from, 0));
      const auto gather = of(collectives::MeasuredCollective::gather);
      CHECK(gather.taken(kRoot, from) == gather.given(from, 0));
      const auto all_to_all = of(collectives::MeasuredCollective::all_to_all);
      CHECK(all_to_all.taken(rank, from) == all_to_all.given(from, rank));
    }
  }
}

TEST_CASE("an average is rounded once, and least and largest are of all ranks", "[exact_blocks]") {
  constexpr int kRanks = 3;
  for (const DType dtype : kDTypes) {
    const auto averages =
        blocks(collectives::MeasuredCollective::all_reduce, kRanks, ReduceOp::avg, dtype);
    const auto least =
        blocks(collectives::MeasuredCollective::all_reduce, kRanks, ReduceOp::min, dtype);
    const auto largest =
        blocks(collectives::MeasuredCollective::all_reduce, kRanks, ReduceOp::max, dtype);
    for (std::size_t e = 0; e < kCount; ++e) {
      const float a = averages.given(0, 0)[e];
      const float b = averages.given(1, 0)[e];
      const float c = averages.given(2, 0)[e];
      CHECK(averages.taken(1, 0)[e] == sim::round_to(dtype, (a + b + c) / 3));
      CHECK(least.taken(1, 0)[e] == std::min({a, b, c}));
      CHECK(largest.taken(1, 0)[e] == std::max({a, b, c}));
    }
  }
}

}  // namespace kernbench::benches::exact_blocks_test
