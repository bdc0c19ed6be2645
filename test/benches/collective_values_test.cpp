// Tests the elements on the shards of a collective's tensors, and which of them count as wrong.

#include "benches/collectives/collective_values.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/torch/runtime_context.h"
#include "test/support/small_topology.h"

namespace kernbench::benches::collective_values_test {

namespace {

constexpr collectives::BlocksInput kSum{.ranks = 2, .dtype = DType::f32, .count = 4};

// On both SIPs, each with 2 cubes of 2 PEs.
std::vector<Tensor> make_tensors(RuntimeContext& torch, const DPPolicy& placement) {
  std::vector<Tensor> tensors;
  for (int rank = 0; rank < 2; ++rank) {
    torch.ahbm.set_device(rank);
    tensors.push_back(torch.zeros({1, kSum.count}, {.dp = placement}));
  }
  return tensors;
}

Topology four_pes() {
  return test::round_topology(SipTopology::ring_1d, 2, 1, 2, 1);
}

}  // namespace

TEST_CASE("copies hold the same, and summands their own", "[collective_values]") {
  const Topology topology = four_pes();
  for (const Shard cubes : {Shard::partial, Shard::replicate}) {
    RuntimeContext torch(topology);
    const DPPolicy placement{.cube = cubes, .pe = Shard::column_wise};
    const collectives::CollectiveValues values(topology, kSum, placement, {});
    const std::vector<Tensor> tensors = make_tensors(torch, placement);
    for (int rank = 0; rank < 2; ++rank) values.bring(rank, {tensors[rank]});
    const std::vector<float> first = tensors[0].shard_to_vector(0);
    const std::size_t other_cube = tensors[0].shards().size() / 2;
    CHECK((tensors[0].shard_to_vector(other_cube) != first) == (cubes == Shard::partial));
    CHECK(tensors[1].shard_to_vector(0) != first);
  }
}

TEST_CASE("each wrong element of each copy is counted, down to the sign of a zero",
          "[collective_values]") {
  const Topology topology = four_pes();
  RuntimeContext torch(topology);
  const DPPolicy copies{.cube = Shard::replicate, .pe = Shard::replicate};
  const collectives::CollectiveValues values(topology, kSum, copies, {});
  std::vector<float> sums = collectives::ExactBlocks(kSum).taken(0, 0);
  const Tensor x = make_tensors(torch, copies)[1];
  const auto wrong_with = [&](const std::vector<float>& elements) {
    Tensor(x).copy_(RuntimeContext::tensor(elements, x.shape()));
    return values.count_wrong(1, {x});
  };
  const auto copy_count = static_cast<std::int64_t>(x.shards().size());
  CHECK(wrong_with(sums) == 0);
  sums[3] += 1;
  CHECK(wrong_with(sums) == copy_count);
  sums[0] = std::nanf("");
  CHECK(wrong_with(sums) == 2 * copy_count);

  collectives::BlocksInput zeros = kSum;
  zeros.op = ReduceOp::min;
  sums = collectives::ExactBlocks(zeros).taken(0, 0);
  const collectives::CollectiveValues least(topology, zeros, copies, {});
  for (float& element : sums) element = element == 0 ? -0.0F : element;
  Tensor(x).copy_(RuntimeContext::tensor(sums, x.shape()));
  CHECK(least.count_wrong(1, {x}) == copy_count * std::ranges::count(sums, 0.0F));
}

}  // namespace kernbench::benches::collective_values_test
