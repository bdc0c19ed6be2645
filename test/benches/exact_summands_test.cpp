#include "benches/collectives/exact_summands.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::exact_summands_test {

namespace {

constexpr DPPolicy kPartialCubes{.cube = Shard::partial, .pe = Shard::column_wise};

Topology six_sips() {
  return test::round_topology(SipTopology::torus_2d, 2, 3, 4, 4);
}

}  // namespace

TEST_CASE("sums are exact in the type, in any order", "[exact_summands]") {
  for (const auto& [dtype, limit] : {std::pair{DType::f16, 2048.0F}, {DType::bf16, 256.0F}}) {
    const ExactSummands summands(six_sips(), kPartialCubes, dtype, 100, 1);
    CHECK(summands.holder_count() == 96);
    for (int element = 0; element < 100; ++element) {
      float largest = 0;  // that a partial sum can reach
      float sum = 0;
      for (int rank = 0; rank < 6; ++rank) {
        for (int cube = 0; cube < 16; ++cube) {
          const ShardInfo shard{rank, cube, 0, {0, element}, {1, 1}, 0};
          const float value = summands.of_shard(rank, shard).front();
          largest += std::abs(value);
          sum += value;
        }
      }
      CHECK(largest <= limit);
      CHECK(sum == summands.sum(element));
    }
  }
}

TEST_CASE("with more holders than the type has integers, some bring zeros", "[exact_summands]") {
  Topology topology = test::round_topology(SipTopology::torus_2d, 32, 32);
  const DPPolicy one_pe = DPPolicy::replicated();
  const ExactSummands summands(topology, one_pe, DType::bf16, 8, 0);
  CHECK(summands.holder_count() == 1024);
  for (int element = 0; element < 8; ++element) {
    int others_than_zero = 0;
    for (int rank = 0; rank < 1024; ++rank) {
      const ShardInfo shard{rank, 0, 0, {0, element}, {1, 1}, 0};
      others_than_zero += summands.of_shard(rank, shard).front() != 0;
    }
    CHECK(others_than_zero <= 256);
    CHECK(others_than_zero > 0);
  }
}

TEST_CASE("copies hold the same, summands their own", "[exact_summands]") {
  const auto differ = [](const DPPolicy& policy) {
    const ExactSummands summands(six_sips(), policy, DType::f32, 64, 0);
    const ShardInfo first{0, 0, 0, {0, 0}, {1, 64}, 0};
    const ShardInfo other{0, 1, 0, {0, 0}, {1, 64}, 0};
    return summands.of_shard(0, first) != summands.of_shard(0, other);
  };
  CHECK(differ(kPartialCubes));
  CHECK_FALSE(differ({.cube = Shard::replicate, .pe = Shard::column_wise}));
}

TEST_CASE("a wrong element is counted, and a rank that differs", "[exact_summands]") {
  const Topology topology = test::round_topology();  // 2 SIPs, 1 cube, 2 PEs
  RuntimeContext torch(topology);
  const DPPolicy columns{.cube = Shard::replicate, .pe = Shard::column_wise};
  const ExactSummands summands(topology, columns, DType::f32, 4, 0);
  std::vector<float> sums;
  for (int i = 0; i < 4; ++i) sums.push_back(summands.sum(i));

  std::vector<Tensor> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    torch.ahbm.set_device(rank);
    tensors.push_back(torch.zeros({1, 4}, {.dp = columns}));
    tensors.back().copy_(RuntimeContext::tensor(sums, {1, 4}));
  }
  CHECK(summands.count_wrong(tensors) == 0);
  sums[3] += 1;
  tensors[1].copy_(RuntimeContext::tensor(sums, {1, 4}));
  CHECK(summands.count_wrong(tensors) == 2);  // the element, and rank 1
  tensors[0].copy_(RuntimeContext::tensor(sums, {1, 4}));
  CHECK(summands.count_wrong(tensors) == 2);  // both elements; the ranks agree
  sums[0] = std::nanf("");
  tensors[0].copy_(RuntimeContext::tensor(sums, {1, 4}));
  CHECK(summands.count_wrong(tensors) == 4);
}

}  // namespace kernbench::benches::exact_summands_test
